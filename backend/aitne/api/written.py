"""Jobs as JSON, kept while they stay as they are: lists are asked for again and again."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pydantic_core import to_json

from aitne.api.job_views import drawn
from aitne.core.env_values import sees_env_values, with_visible_env
from aitne.core.models.job import Job
from aitne.core.models.user import Actor

MOST = 2_000
"""About 4 MB. When it is full the oldest goes."""

_Key = tuple[UUID, int, tuple[str, ...], bool]


class WrittenJobs:
    """A view depends on the job's row, whose version grows with every change, on the actions, and on whether
    it shows values of environment variables."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[_Key, bytes] = {}

    def write(self, job: Job, actions: Sequence[str], actor: Actor) -> bytes:
        """The job's view as JSON."""
        key = (job.id, job.version, tuple(actions), sees_env_values(actor, job))
        text = self._known.get(key)
        if text is None:
            while len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            text = self._known[key] = to_json(drawn(with_visible_env(actor, job), actions))
        return text

    def page(self, items: Sequence[bytes], next_cursor: str | None, total: int) -> bytes:
        """A page of views."""
        rest = to_json({"next_cursor": next_cursor, "total": total})
        return b'{"items":[' + b",".join(items) + b"]," + rest[1:]
