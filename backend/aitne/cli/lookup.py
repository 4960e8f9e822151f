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


def find_ended(client: Client, text: str, *, sessions: bool = False) -> Job:
    """As ``find_job``; the name of none that lives means the last one that had it, and ``JOB_3`` task 3
    of an array job.

    Raises:
        NotFound: there is none.
        Ambiguous: there are several.
    """
    from aitne.core.errors import NotFound

    try:
        return find_job(client, text, sessions=sessions)
    except NotFound:
        kind = "session" if sessions else None
        named = client.jobs.list(type=kind, search=text[:200], top_level=True, most=100)
        found = next((job for job in named if job.name == text), None) or _task(client, text)
        if found is None:
            raise
        return found


def _task(client: Client, text: str) -> Job | None:
    whole, _, index = text.rpartition("_")
    if not whole or not index.isdecimal():
        return None
    from aitne.core.errors import NotFound

    try:
        array = find_ended(client, whole)
    except NotFound:
        return None
    tasks = client.jobs.list(array_job_id=array.id) if array.is_array else ()
    return next((task for task in tasks if task.array_task_id == int(index)), None)


def _add(found: dict[str, Job], jobs: Iterable[Job]) -> None:
    found.update((job.id, job) for job in jobs)
