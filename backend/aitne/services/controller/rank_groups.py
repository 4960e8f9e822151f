"""End of rank groups whose session has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from aitne.core.errors import NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobType
from aitne.core.ports.store import Store
from aitne.services.controller.live import LiveJobs


class RankGroupWatch:
    """Part of the controller that cancels the rank groups of sessions that have ended.

    Events tell when that may be: nothing is polled, and one query answers for all groups.
    """

    def __init__(self, store: Store, live: LiveJobs, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._live = live
        self._clock = clock

    async def on_events(self, events: Iterable[Event]) -> None:
        """Cancel rank groups without a session if one of the events may have caused that: the end
        of a session, or the creation of a group whose session ended at the same time.
        """
        if any(_concerns(event) for event in events):
            await self.look()

    async def look(self) -> None:
        """Cancel the live rank groups whose session has ended or no longer exists."""
        groups = [
            entry.job
            for entry in self._live
            if entry.job.session_id is not None
            and entry.job.cancel_requested_at is None
            and self._live.get(entry.job.session_id) is None
        ]
        if not groups:
            return
        ids = {group.session_id for group in groups if group.session_id is not None}
        sessions = {job.id: job for job in await self._store.get_jobs(ids)}
        for group in groups:
            message = released_because(group, sessions)
            if message is not None:
                with suppress(NotFound):  # deleted meanwhile
                    await self._store.request_cancel(group.id, self._clock(), message)


def released_because(group: Job, sessions: Mapping[UUID, Job]) -> str | None:
    """Return why a rank group must end, as a sentence: its session has ended. None if the session
    has not ended, or if the job is no rank group.

    ``sessions`` contains, by ID, the session of the group if it still exists.
    """
    if group.session_id is None:
        return None
    session = sessions.get(group.session_id)
    if session is None:
        return "Released, because its session has ended."
    return (
        f"Released, because session {session.name} has ended." if session.state.terminal else None
    )


def _concerns(event: Event) -> bool:
    if "session_id" in event.data:
        return event.kind == "job.created"
    of_session = event.data.get("type") == JobType.SESSION and "state" in event.data
    return of_session and JobState(event.data["state"]).terminal
