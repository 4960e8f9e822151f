"""From what a person types to the job that is meant."""

from __future__ import annotations

import re

from aitne.client import Client, Job
from aitne.client.records import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f]{4}[0-9a-f-]*", re.IGNORECASE)
LOOKED_THROUGH = 2_000
"""A short id is looked up among so many of the newest jobs."""


def connect(url: str | None, data_dir: str | None) -> Client:
    """A client for the platform that is meant."""
    return Client(url=url, data_dir=data_dir)


def find_job(client: Client, text: str, *, sessions: bool = False) -> Job:
    """A job by its id, a unique beginning of that, or the exact name of a live one.

    Raises:
        NotFound: there is none.
        Ambiguous: there are several.
    """
    kind = "session" if sessions else None
    if _UUID.fullmatch(text):
        return client.jobs.get(text)
    found: dict[str, Job] = {}
    if _PREFIX.fullmatch(text):
        start = text.lower()
        newest = client.jobs.list(type=kind, most=LOOKED_THROUGH)
        _add(found, (job for job in newest if job.id.startswith(start)))
    named = client.jobs.list(type=kind, search=text[:200], states=LIVE, top_level=True)
    _add(found, (job for job in named if job.name == text))
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        from aitne.core.errors import NotFound

        raise NotFound(kind or "job", text)
    from aitne.client.errors import Ambiguous

    raise Ambiguous(f"{text} may mean {len(found)} jobs: write more of the id.", [*found.values()])


def _add(found: dict[str, Job], jobs: Iterable[Job]) -> None:
    found.update((job.id, job) for job in jobs)
