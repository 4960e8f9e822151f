"""Cache of jobs serialized as JSON, because the same lists are requested frequently."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pydantic_core import to_json

from aitne.api.job_views import make_view_fields
from aitne.core.jobs.env_visibility import hide_env_values, may_read_env_values
from aitne.core.models.job import Job
from aitne.core.models.user import Actor

MOST = 2_000
"""Maximum number of entries, about 4 MB. When the cache is full, the oldest is removed."""

_Key = tuple[UUID, int, tuple[str, ...], bool]


class JobViewCache:
    """Cache of job views as JSON. An entry is identified by the job's id and version (which grows
    with every change), the permitted actions, and whether values of environment variables are
    visible."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[_Key, bytes] = {}

    def render_job(self, job: Job, actions: Sequence[str], actor: Actor) -> bytes:
        """Return the view of a job as JSON, from the cache if possible. Values of environment
        variables are hidden if ``actor`` may not see them."""
        key = (job.id, job.version, tuple(actions), may_read_env_values(actor, job))
        text = self._known.get(key)
        if text is None:
            while len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            text = self._known[key] = to_json(
                make_view_fields(hide_env_values(actor, job), actions)
            )
        return text

    def render_page(self, items: Sequence[bytes], next_cursor: str | None, total: int) -> bytes:
        """Return a page of job views, which are JSON already, as the JSON of a ``JobPage``."""
        rest = to_json({"next_cursor": next_cursor, "total": total})
        return b'{"items":[' + b",".join(items) + b"]," + rest[1:]
