"""Lookup of the job that a command-line argument names."""

from __future__ import annotations

import re

from aitne.client import Client, Job
from aitne.client.record import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f]{4}[0-9a-f-]*", re.IGNORECASE)
LOOKED_THROUGH = 2_000
"""Number of the newest jobs in which a short id is looked up."""
_LONGEST_INDEX = 9


def connect(url: str | None, data_dir: str | None) -> Client:
    """Return a client for the selected platform."""
    return Client(url=url, data_dir=data_dir)


def find_job(client: Client, text: str, *, sessions: bool = False) -> Job:
    """Return a job by its id, a unique beginning of that, or the exact name of a live one;
    ``JOB_3`` is task 3 of an array job.

    Raises:
        NotFound: no job matches.
        Ambiguous: several jobs match.
    """
    return _find(client, text, sessions=sessions, include_ended=False)


def find_ended(client: Client, text: str, *, sessions: bool = False) -> Job:
    """Return a job as ``find_job`` does; a name that no live job has selects the last job with it.

    Raises:
        NotFound: no job matches.
        Ambiguous: several jobs match.
    """
    return _find(client, text, sessions=sessions, include_ended=True)


def _find(client: Client, text: str, *, sessions: bool, include_ended: bool) -> Job:
    kind = "session" if sessions else None
    if _UUID.fullmatch(text):
        return client.jobs.get(text)
    matches: dict[str, Job] = {}
    if _PREFIX.fullmatch(text):
        start = text.lower()
        newest = client.jobs.list(type=kind, top_level=True, most=LOOKED_THROUGH)
        _add(matches, (job for job in newest if job.id.startswith(start)))
    _add(matches, _named(client, text, kind, LIVE))
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        from aitne.client.errors import Ambiguous

        raise Ambiguous(
            f"{text} matches {len(matches)} jobs: give more of the id.", [*matches.values()]
        )
    if include_ended and (last := _named(client, text, kind)):
        return last[0]
    from aitne.core.errors import NotFound

    whole, _, index = text.rpartition("_")
    if whole and index.isdecimal() and len(index) <= _LONGEST_INDEX and not sessions:
        try:
            array = _find(client, whole, sessions=False, include_ended=include_ended)
        except NotFound:
            array = None
        if array is not None and (task := _task(client, array, int(index))):
            return task
    raise NotFound(kind or "job", text)


def _named(
    client: Client, name: str, kind: str | None, states: Sequence[str] = ()
) -> Sequence[Job]:
    jobs = client.jobs.list(type=kind, search=name[:200], states=states, top_level=True, most=100)
    return [job for job in jobs if job.name == name]


def _task(client: Client, array: Job, index: int) -> Job | None:
    if not array.is_array:
        return None
    from uuid import UUID

    from aitne.core.errors import NotFound
    from aitne.core.jobs.arrays import task_id

    try:
        task = client.jobs.get(str(task_id(UUID(array.id), index)))
    except NotFound:
        pass
    else:
        if task.array_job_id == array.id:
            return task
    # Tasks that were stored by releases before 0.2 have other ids.
    tasks = client.jobs.list(array_job_id=array.id)
    return next((task for task in tasks if task.array_task_id == index), None)


def _add(jobs_by_id: dict[str, Job], jobs: Iterable[Job]) -> None:
    jobs_by_id.update((job.id, job) for job in jobs)
