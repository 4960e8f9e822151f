"""End of rank groups whose session has ended or was requeued."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from aitne.core.errors import NotFound
from aitne.core.jobs.states import ACTIVE, WAITING, JobState
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobType
from aitne.services.controller.live_jobs import LiveJobs
from aitne.store import Store


class RankGroupWatch:
    """Component that cancels the rank groups of sessions that have ended or were requeued, because
    the kernels that used the ranks no longer exist.

    It is driven by events and does not poll. One query covers all groups.
    """

    def __init__(self, store: Store, live: LiveJobs, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._live = live
        self._clock = clock

    async def on_events(self, events: Iterable[Event]) -> None:
        """Cancel rank groups without a running session if one of the events may have caused that:
        the end or the requeue of a session, or the creation of a group at the same time.
        """
        requeued: set[UUID] = set()
        concerns = False
        for event in events:
            concerns = _is_relevant(event) or concerns
            if _is_requeue(event) and event.job_id is not None:
                requeued.add(event.job_id)
        if concerns or requeued:
            await self.cancel_released(requeued)

    async def cancel_released(self, requeued: Collection[UUID] = ()) -> None:
        """Cancel the live rank groups whose session has ended, no longer exists, waits to be started
        again, or is one of the sessions ``requeued``, which may run again already.
        """
        groups = [
            entry.job
            for entry in self._live
            if entry.job.session_id is not None and entry.job.cancel_requested_at is None
        ]
        ids = {group.session_id for group in groups if group.session_id is not None}
        sessions = {
            session_id: entry.job
            for session_id in ids
            if (entry := self._live.get(session_id)) is not None
        }
        if ended := ids - sessions.keys():
            sessions |= {job.id: job for job in await self._store.find_jobs(ended)}
        for group in groups:
            message = find_release_reason(group, sessions, requeued)
            if message is not None:
                with suppress(NotFound):  # deleted meanwhile
                    await self._store.request_cancel(group.id, self._clock(), message)


def find_release_reason(
    group: Job, sessions: Mapping[UUID, Job], requeued: Collection[UUID] = ()
) -> str | None:
    """Return a sentence that explains why a rank group must end: its session has ended, or was
    requeued after the group was stored. None if neither applies, or if the job is not a rank group.

    Args:
        sessions: contains, by ID, the session of the group if it still exists.
        requeued: IDs of sessions that were requeued since. A session that is pending was requeued,
            too, because groups are created only for running sessions.
    """
    if group.session_id is None:
        return None
    session = sessions.get(group.session_id)
    if session is None:
        return "Released, because its session has ended."
    if session.state.is_terminal:
        return f"Released, because session {session.name} has ended."
    if session.id in requeued or session.state in WAITING:
        return f"Released, because session {session.name} was requeued."
    return None


def _is_requeue(event: Event) -> bool:
    return (
        event.data.get("type") == JobType.SESSION
        and event.data.get("state") in WAITING
        and event.data.get("previous") in ACTIVE
    )


def _is_relevant(event: Event) -> bool:
    if "session_id" in event.data:
        return event.kind == "job.created"
    of_session = event.data.get("type") == JobType.SESSION and "state" in event.data
    return of_session and JobState(event.data["state"]).is_terminal
