"""Lookup of the job that a command-line argument identifies."""

from __future__ import annotations

import re

from aitne.client import Client, Job
from aitne.client.record_base import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.client.errors import Ambiguous

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f]{4}[0-9a-f-]*", re.IGNORECASE)
LOOKED_THROUGH = 2_000
"""Number of the newest jobs among which the beginning of an id is searched."""
_LONGEST_INDEX = 9


def make_client(url: str | None, data_dir: str | None) -> Client:
    """Return a client for the platform that the options select."""
    return Client(url=url, data_dir=data_dir)


def find_job(client: Client, text: str, *, sessions: bool = False) -> Job:
    """Return the job that ``text`` identifies: by its id, the beginning of its id, or its exact
    name. Of several jobs with that name, the newest is taken; ``JOB_3`` is task 3 of an array job.

    Raises:
        NotFound: no job matches.
        Ambiguous: several jobs have ids with this beginning, or the name belongs only to jobs of
            several other users.
    """
    return _find_by_id_or_name(client, text, sessions=sessions, unfinished=False)


def find_unfinished(client: Client, text: str, *, sessions: bool = False) -> Job:
    """Return the job that ``text`` identifies, as ``find_job`` does; jobs that have ended are not
    found by their names, only by their ids.

    Raises:
        NotFound, Ambiguous: as ``find_job``.
        Conflict: all jobs of that name have ended.
    """
    return _find_by_id_or_name(client, text, sessions=sessions, unfinished=True)


def _find_by_id_or_name(client: Client, text: str, *, sessions: bool, unfinished: bool) -> Job:
    kind = "session" if sessions else None
    if _UUID.fullmatch(text):
        return client.jobs.get(text)
    matches: dict[str, Job] = {}
    if _PREFIX.fullmatch(text):
        start = text.lower()
        newest = client.jobs.list(type=kind, top_level=True, limit=LOOKED_THROUGH)
        matches = {job.id: job for job in newest if job.id.startswith(start)}
    named = _choose_newest(
        client, _list_named(client, text, kind, LIVE if unfinished else ()), text
    )
    if named is not None:
        matches[named.id] = named
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        raise _make_ambiguous_error(text, [*matches.values()], "give more of the id")
    if (
        unfinished
        and (ended := _choose_newest(client, _list_named(client, text, kind), text)) is not None
    ):
        from aitne.core.errors import Conflict

        raise Conflict(f"{ended.name} ({ended.short_id}) has ended.")
    from aitne.core.errors import NotFound

    whole, _, index = text.rpartition("_")
    if whole and index.isdecimal() and len(index) <= _LONGEST_INDEX and not sessions:
        try:
            array = _find_by_id_or_name(client, whole, sessions=False, unfinished=False)
        except NotFound:
            array = None
        if array is not None and (task := _find_array_task(client, array, int(index))):
            return task
    raise NotFound(kind or "job", text)


def _choose_newest(client: Client, jobs: Sequence[Job], name: str) -> Job | None:
    """Return the newest job called ``name``, preferring the user's own; None if there is none.

    Raises ``Ambiguous`` if none is the user's own and they belong to several users.
    """
    if len({job.owner for job in jobs}) > 1:
        user = client.me().user.name
        own = [job for job in jobs if job.owner == user]
        if not own:
            raise _make_ambiguous_error(name, jobs, "give the id of one")
        jobs = own
    return jobs[0] if jobs else None


def _make_ambiguous_error(text: str, jobs: Sequence[Job], remedy: str) -> Ambiguous:
    from aitne.client.errors import Ambiguous

    return Ambiguous(f"{text} matches {len(jobs)} jobs: {remedy}.", jobs)


def _list_named(
    client: Client, name: str, kind: str | None, states: Sequence[str] = ()
) -> Sequence[Job]:
    """Return the jobs whose name is exactly ``name``, newest first. ``kind`` is the type of the
    jobs (None: all), ``states`` their states (empty: all).
    """
    for limit in (100, LOOKED_THROUGH):
        listed = list(
            client.jobs.list(
                type=kind, search=name[:200], states=states, top_level=True, limit=limit
            )
        )
        named = [job for job in listed if job.name == name]
        if named or len(listed) < limit:
            break
    return named


def _find_array_task(client: Client, array: Job, index: int) -> Job | None:
    if not array.is_array:
        return None
    from uuid import UUID

    from aitne.core.errors import NotFound
    from aitne.core.jobs.array_job_state import task_id

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
