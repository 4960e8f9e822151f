"""Connection of sessions to JupyterHub: when a session's agent is waiting, the hub registers the
running job as a single-user server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any
from uuid import UUID

from aitne.core.errors import (
    Conflict,
    HubUnavailable,
    SchedulerUnavailable,
    StaleEpoch,
    StoreUnavailable,
)
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.ports.hub import Hub
from aitne.core.ports.scheduler import Scheduler
from aitne.core.sessions.entry_points import server_name, session_url
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.run_identification import make_run
from aitne.store import Store

log = logging.getLogger(__name__)

HUB_RETRY_S = 0.5
REFUSALS = 3
"""Number of failed starts by the hub after which a session is given up."""
FORGET_TRIES = 40


class SessionConnector:
    """Component that connects running sessions to JupyterHub and removes ended ones, each in an
    asyncio task of its own.
    """

    def __init__(
        self,
        store: Store,
        hub: Hub,
        scheduler: Scheduler,
        leader: Leader,
        live: LiveJobs,
        clock: Callable[[], datetime],
        sessions_url: str,
    ) -> None:
        self._store = store
        self._hub = hub
        self._scheduler = scheduler
        self._leader = leader
        self._live = live
        self._clock = clock
        self._sessions_url = sessions_url
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self.interrupted = False
        """Whether an outage of the database interrupted the connection of a session; ``resume``
        then connects it again.
        """

    def resume(self) -> None:
        """Connect every session that is running but not ready yet."""
        self.interrupted = False
        for entry in list(self._live):
            self._connect_if_waiting(entry.job)

    async def on_event(self, event: Event) -> None:
        """Start to connect the session, or to remove it from JupyterHub, as the state in the event
        requires.
        """
        if event.job_id is None or event.data.get("type") != JobType.SESSION:
            return
        state = event.data.get("state")
        if state == JobState.RUNNING:
            self._connect_if_waiting(await self._store.get_job(event.job_id))
        elif event.ends_job:
            self._start_task(
                event.job_id, self._remove_server(await self._store.get_job(event.job_id))
            )

    async def close(self) -> None:
        """Cancel all connections in progress; the next leader resumes them."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _connect_if_waiting(self, job: Job) -> None:
        waiting = job.type is JobType.SESSION and job.state is JobState.RUNNING and job.address
        if waiting and job.id not in self._tasks:
            self._start_task(job.id, self._connect_session(job))

    def _start_task(self, job_id: UUID, work: Coroutine[Any, Any, None]) -> None:
        if (running := self._tasks.get(job_id)) is not None:
            running.cancel()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[job_id] = task
        task.add_done_callback(lambda completed: self._handle_task_end(job_id, completed))

    def _handle_task_end(self, job_id: UUID, task: asyncio.Task[None]) -> None:
        if self._tasks.get(job_id) is task:
            del self._tasks[job_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.interrupted |= isinstance(error, StoreUnavailable)
            log.error("Connecting session %s failed.", job_id, exc_info=error)

    async def _connect_session(self, job: Job) -> None:
        app = job.spec.apps[0]
        try:
            async with asyncio.timeout(app.readiness.timeout_s):
                if not await self._start_server(job):
                    return
        except TimeoutError:
            await self._fail_session(job, f"it did not answer within {app.readiness.timeout_s} s.")
            return
        await self._transition_job(
            job,
            JobState.READY,
            JobChanges(
                ready_at=self._clock(),
                url=session_url(self._sessions_url, job.owner, job.id, app.path),
                message=None,
            ),
        )

    async def _start_server(self, job: Job) -> bool:
        """Start the session's server at JupyterHub.

        Return True once the hub routes requests to the session's app, and False if the session no
        longer needs a connection, for example because it has ended.
        """
        refusals = 0
        moved = job.attempt > 1 or job.restart_count > 0
        while True:
            try:
                if moved:
                    # The Hub may still hold the address of the previous run.
                    await self._hub.remove_server(job.owner, server_name(job.id))
                    moved = False
                await self._hub.start_server(job.owner, server_name(job.id), job.id, job.name)
                return True
            except HubUnavailable as error:
                log.info("Session %s waits for the Hub: %s", job.id, error.message)
            except Conflict as error:
                refusals += 1
                log.warning("The Hub did not start session %s: %s", job.id, error.message)
                if refusals == REFUSALS:
                    await self._fail_session(job, error.message)
                    return False
            await asyncio.sleep(HUB_RETRY_S)
            if (await self._store.get_job(job.id)).state is not JobState.RUNNING:
                return False

    async def _fail_session(self, job: Job, reason: str) -> None:
        await self._cancel_session(job.id)
        await self._transition_job(
            job,
            JobState.FAILED,
            JobChanges(
                reason=TerminationReason.START_FAILED,
                message=f"{job.spec.apps[0].title} did not start: {reason} See the log.",
                ready_at=None,
                ended_at=self._clock(),
            ),
        )

    async def _cancel_session(self, job_id: UUID) -> None:
        """Cancel the session in the scheduler.

        Waits for the scheduler ID if necessary, because the agent may report before the ID is
        stored.
        """
        while (job := await self._store.get_job(job_id)).state is JobState.RUNNING:
            try:
                if job.scheduler_id is not None:
                    await self._scheduler.cancel(make_run(job))
                    return
            except SchedulerUnavailable as silent:
                log.warning("Session %s cannot be ended yet: %s", job.id, silent.message)
            await asyncio.sleep(HUB_RETRY_S)

    async def _remove_server(self, job: Job) -> None:
        for _ in range(FORGET_TRIES):
            try:
                await self._hub.remove_server(job.owner, server_name(job.id))
            except HubUnavailable:
                await asyncio.sleep(HUB_RETRY_S)
            else:
                return
        # The Hub's own poll of the job removes the route too; until then it is only stale.
        log.warning("The Hub was not notified that session %s has ended.", job.id)

    async def _transition_job(self, job: Job, to: JobState, changes: JobChanges) -> None:
        try:
            await self._store.transition_job(
                job.id, to, changes, attempt=job.attempt, epoch=self._leader.epoch
            )
        except StaleEpoch:
            raise
        except Conflict as error:
            log.info("The state of session %s changed meanwhile: %s", job.id, error.message)
