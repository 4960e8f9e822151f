"""Reports of the jobs' agents, and the data that agents fetch: secrets and trees."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from aitne.core.errors import AitneError, Conflict, InvalidInput, NotAuthenticated, NotFound
from aitne.core.jobs.agent_protocol import (
    OLDEST_VERSION,
    VERSION,
    AgentReply,
    AgentReport,
    JobSecrets,
    ProgramPhase,
)
from aitne.core.jobs.states import ACTIVE, JobState
from aitne.core.models.collective_profile import MOST_BYTES, Profile
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.services.cluster.node_reports import NodeReports
from aitne.services.hyperparameter_sweeps import SweepService
from aitne.services.jobs.job_agent_reports import SnapshotService
from aitne.services.jobs.live_usage import LiveUsage
from aitne.services.jobs.uploaded_trees import TreeService
from aitne.services.platform.event_hub import EventHub
from aitne.services.platform.shared_secrets import hash_secret
from aitne.services.users.user_secrets import UserSecretService
from aitne.store import Store
from aitne.store.job_tokens_and_samples import JobDataStore

log = logging.getLogger(__name__)

MOST_IDLE_S = 366 * 86_400.0
"""Maximum idle time in seconds; a larger value in a report is reduced to it."""
LONGEST_TOLERANCE_S = 300.0
"""Maximum age in seconds of the stored time of a session's last activity; for short inactivity
durations, a twentieth of the duration.
"""
_RACES = 5
_STORED: dict[str, object] = {
    "samples": (),
    "topology": None,
    **dict.fromkeys(("profile", "snapshot", "results", "files", "placement", "message")),
}
"""Default values of the report's fields that may be large. They are stored at once and removed from
a report that waits for confirmation by the scheduler.
"""
MOST_EARLY = 10_000
"""Maximum number of reports that wait until the scheduler confirms their runs; the oldest is dropped."""
_UNCONFIRMED = frozenset({JobState.SUBMITTING, JobState.UNCERTAIN, JobState.QUEUED})
"""States in which the scheduler has not confirmed that the job has its nodes, although the program
may already run.
"""


@dataclass(frozen=True, slots=True)
class _Early:
    """Report of an agent that arrived before a poll of the scheduler showed the run. It is applied
    after a poll has shown it.
    """

    report: AgentReport
    received_at: datetime


class AgentService:
    """Service that processes the reports of agents and gives them secrets and trees.

    An agent runs as the job's owner and is not trusted. The times of the allocation and the number
    of restarts are therefore read only from the scheduler. A report about a run that no poll has
    shown yet is kept, and applied after the poll that shows the run.

    ``trusted``: agents run under the platform's own account, so their reported node is accepted.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        events: EventHub,
        snapshots: SnapshotService,
        sweeps: SweepService,
        secrets: UserSecretService,
        trees: TreeService,
        nodes: NodeReports,
        usage: LiveUsage,
        *,
        trusted: bool,
    ) -> None:
        self.usage = usage
        self._secrets = secrets
        self._trees = trees
        self._nodes = nodes
        self._snapshots = snapshots
        self._sweeps = sweeps
        self._store = store
        self._trusted = trusted
        self._clock = clock
        self._events = events
        self._early: dict[UUID, _Early] = {}
        self._confirmed: set[UUID] = set()
        """Jobs with changed rows whose waiting reports must be examined again."""
        self._settling: asyncio.Task[None] | None = None
        events.add_listener(self._on_events)

    async def stop(self) -> None:
        """Stop applying the reports that wait for a poll of the scheduler."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.wait({self._settling})

    async def report(self, token: str, job_id: UUID, report: AgentReport) -> AgentReply:
        """Process the report of an agent. A report of an earlier attempt is answered, but not
        applied.

        Raises:
            NotAuthenticated: the token is not this job's, or the job has ended.
            InvalidInput: the platform does not support the agent's version of the protocol.
        """
        reporting = await job_of_token(self._store, token, job_id)
        if not OLDEST_VERSION <= report.protocol <= VERSION:
            raise InvalidInput.field(
                "protocol",
                "the job was started by another release, whose agent this platform does not serve",
                value=report.protocol,
                allowed=f"{OLDEST_VERSION} to {VERSION}",
            )
        job = await self._find_row(reporting, report.task)
        if job is None or job.attempt != report.attempt or job.state.is_terminal:
            return AgentReply()
        if report.samples:
            await self._store.add_samples(job.id, report.samples)
            self.usage.add_samples(job, report.samples)
        if report.profile is not None:
            await self._store_profile(job.id, report.profile)
        await self._keep_documents(job, report)
        if report.idle_s is not None and job.spec.inactivity_duration_s is not None:
            now = self._clock()
            active_at = now - timedelta(seconds=min(report.idle_s, MOST_IDLE_S))
            tolerance_s = min(LONGEST_TOLERANCE_S, job.spec.inactivity_duration_s / 20)
            await self._store.record_activity(
                job.id, active_at=active_at, seen_at=now, tolerance_s=tolerance_s
            )
        if report.node_rank is None:
            early = _Early(report.model_copy(update=_STORED), self._clock())
            if _is_early(job, report):
                self._early.pop(job.id, None)
                self._early[job.id] = early
                if len(self._early) > MOST_EARLY:
                    del self._early[next(iter(self._early))]
                # The poll may have been written since the row was read.
                job = await self._store.get_job(job.id)
            await self._apply_if_confirmed(job, early)
        return AgentReply(topology_wanted=await self._nodes.receive(job, report))

    def _on_events(self, events: Sequence[Event]) -> None:
        """Record which waiting reports the events may confirm, and start to process these reports."""
        changed = {event.job_id for event in events if event.job_id is not None}
        self._confirmed |= changed & self._early.keys()
        self.usage.forget(
            event.job_id for event in events if event.job_id is not None and event.ends_job
        )
        if self._confirmed and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(
                self._apply_confirmed_reports(), name="early-reports"
            )

    async def _apply_confirmed_reports(self) -> None:
        while self._confirmed:
            job_id = self._confirmed.pop()
            early = self._early.get(job_id)
            try:
                if early is not None:
                    await self._apply_if_confirmed(await self._store.get_job(job_id), early)
            except AitneError as error:
                log.warning(
                    "A report of job %s was not applied; the next one may be: %s",
                    job_id,
                    error.message,
                )

    async def _apply_if_confirmed(self, job: Job, early: _Early) -> None:
        """Apply a waiting report if the scheduler has confirmed its run; otherwise leave it
        waiting.
        """
        for _ in range(_RACES):
            if _is_early(job, early.report):
                return
            try:
                await self._apply_report(job, early)
                break
            except Conflict:
                # The controller changed the row in the meantime: read it again.
                job = await self._store.get_job(job.id)
        if self._early.get(job.id) is early:
            del self._early[job.id]

    async def _keep_documents(self, job: Job, report: AgentReport) -> None:
        """Store the snapshot, the file list, the placement and the results of the report."""
        if report.snapshot is not None:
            await self._snapshots.store_snapshot(job.id, report.snapshot)
        if report.files is not None:
            await self._snapshots.store_files(job.id, report.files)
        if report.placement is not None:
            await self._snapshots.store_placement(job.id, report.placement)
        if report.results is not None:
            values = await self._snapshots.store_results(job.id, report.results)
            await self._sweeps.check_goal(job, values)

    async def _store_profile(self, job_id: UUID, document: dict[str, Any]) -> None:
        """Store the profile in the report.

        The job's own program writes the profile. If it is invalid it is ignored, but the rest of
        the report is applied.
        """
        try:
            profile = Profile.model_validate(document)
        except ValidationError as error:
            log.info("The profile of job %s is invalid: %s", job_id, error.errors()[0]["msg"])
            return
        self.usage.set_communication_share(job_id, profile.communicating)
        text = profile.model_dump_json(by_alias=True)
        if len(text) <= MOST_BYTES:
            await self._store.save_profile(job_id, json.loads(text))

    async def secrets(self, token: str, job_id: UUID) -> JobSecrets:
        """Return the names and values of the secrets that the job names.

        Raises:
            NotAuthenticated: the token is not this job's, or the job has ended.
            Conflict: a secret was deleted since the job was submitted.
        """
        job = await job_of_token(self._store, token, job_id)
        return JobSecrets(env=dict(await self._secrets.values(job.owner, job.spec.secrets)))

    async def read_tree(self, token: str, job_id: UUID) -> tuple[int, Iterator[bytes]]:
        """Return the job's uploaded working tree as one stream: its length in bytes, and its parts.
        The parts are the list of the files, a line feed, and the contents of the files.

        Raises:
            NotAuthenticated: the token is not this job's, or the job has ended.
            NotFound: the job has no tree.
            Conflict: its tree was removed.
        """
        job = await job_of_token(self._store, token, job_id)
        if job.spec.tree is None:
            raise NotFound("tree", job_id, f"The job {job_id} has no tree.")
        content = await self._trees.content(job.owner, job.spec.tree.digest)
        if content is None:
            raise Conflict(
                "The job's tree was removed from the platform. Submit the job again with --sync."
            )
        return content

    async def _find_row(self, job: Job, task: int | None) -> Job | None:
        """Return the database row that a report is about; None if there is none.

        Args:
            job: the job with the agent's token; for a task, its array job, unless the task is
                retried.
            task: index of the task in its array; None: the report is not about a task. The task
                gets a database row of its own if it does not have one.
        """
        if not job.is_array:
            return job if job.array_task_id == task else None
        return (
            None if task is None else await self._store.find_array_task(job.id, task, own_row=True)
        )

    async def _apply_report(self, job: Job, early: _Early) -> None:
        """Apply the report to the database row of its job.

        Raises ``Conflict`` if the row has changed since it was read.
        """
        report = early.report
        if (job.attempt, job.restart_count) != (report.attempt, report.restart_count):
            return
        if job.state not in ACTIVE or job.state is JobState.COMPLETING:
            return
        if report.phase is ProgramPhase.FINISHED:
            await self._transition_job(job, JobState.COMPLETING, JobChanges())
            return
        to = JobState.RUNNING if job.state is JobState.STARTING else job.state
        await self._transition_job(job, to, self._make_changes(job, early))

    def _make_changes(self, job: Job, early: _Early) -> JobChanges:
        """Return the changes that the report causes in the job's database row."""
        report, values = early.report, dict[str, object]()
        # An app's address does not change while it runs, and the hub sends browsers to it.
        if report.address is not None and job.address is None:
            values["address"] = report.address
        if report.phase is ProgramPhase.READY and job.ready_at is None and not self._trusted:
            # The hub sends no browser there before this: another account of the node may have answered.
            values["ready_at"] = self._clock()
        if job.started_at is None:
            # A program cannot start before its job has nodes, whatever its agent reports.
            values["started_at"] = max(early.received_at, job.allocated_at or early.received_at)
        if not job.nodes and self._trusted:
            values["nodes"] = (report.node,)
        if job.state is JobState.STARTING and job.message is not None:
            values["message"] = None  # it said why the job waited
        beside = job.type is JobType.SESSION or job.spec.notebook is not None
        has_ranks = beside and job.spec.distributed is not None
        if report.ranks_ended is not None and has_ranks and job.cancel_requested_at is None:
            # The text comes from a process of the user: no more than a line is taken from it.
            printable = "".join(c if c.isprintable() else " " for c in report.ranks_ended)
            sentence = f"{' '.join(printable.split())}."
            if sentence != job.message:
                values["message"] = sentence
        return JobChanges.model_validate(values)

    async def _transition_job(self, job: Job, to: JobState, changes: JobChanges) -> Job:
        if to is job.state and not changes.model_fields_set:
            return job
        return await self._store.transition_job(
            job.id, to, changes, attempt=job.attempt, version=job.version
        )


async def job_of_token(store: JobDataStore, token: str, job_id: UUID) -> Job:
    """Return the job of the job token ``token``. ``job_id`` is its id, or that of its array job.

    Raises ``NotAuthenticated`` if the token is not the job's, or the job has ended.
    """
    job = await store.find_job_by_token(hash_secret(token))
    if job is None or job_id not in (job.id, job.array_job_id):
        raise NotAuthenticated("This is not the token of a live job.")
    return job


def _is_early(job: Job, report: AgentReport) -> bool:
    """Return whether the report is about a run of the current attempt that no poll has shown
    yet.
    """
    ahead = job.state in _UNCONFIRMED or report.restart_count > job.restart_count
    return ahead and job.attempt == report.attempt and not job.state.is_terminal
