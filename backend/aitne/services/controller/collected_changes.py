"""Changes of jobs that a poll collects, and their way into the database."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from aitne.core.errors import Conflict, NotFound, StaleEpoch
from aitne.core.jobs.states import JobState, permits_retry
from aitne.core.models.cluster import Cluster
from aitne.core.models.job import Job, JobChanges
from aitne.core.platform.metric_names import RECONCILE
from aitne.core.ports.job_files import ProgramOutcome
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.excluded_nodes import with_excluded_nodes
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.unmet_dependency_messages import (
    is_unexplained,
    with_dependency_messages,
)
from aitne.store import Store
from aitne.store.transitions import TransitionRequest

log = logging.getLogger(__name__)

WRITE = 500
"""Maximum number of rows changed in one transaction."""


class CollectedChanges:
    """Component that collects the changes of a poll, and writes them to the database."""

    def __init__(
        self, store: Store, leader: Leader, counts: ControllerCounters, live: LiveJobs
    ) -> None:
        self._store = store
        self._leader = leader
        self._counts = counts
        self._live = live
        self._moves: list[TransitionRequest] = []
        self._again: list[tuple[Job, JobState, JobChanges]] = []

    def __bool__(self) -> bool:
        return bool(self._moves or self._again)

    @property
    def job_ids(self) -> set[UUID]:
        """Return the IDs of the jobs that change."""
        return {move.job_id for move in self._moves} | {job.id for job, *_ in self._again}

    def collect_state(self, job: Job, state: JobState, changes: JobChanges) -> None:
        """Collect the new state of a job."""
        self._moves.append(TransitionRequest(job.id, state, changes, version=job.version))

    def collect_retry(self, job: Job, state: JobState, changes: JobChanges) -> None:
        """Collect the end of a job's attempt, after which the next attempt begins."""
        self._again.append((job, state, changes))

    def collect_end(
        self,
        job: Job,
        state: JobState,
        changes: JobChanges,
        cluster: Cluster,
        agent: ProgramOutcome | None = None,
    ) -> None:
        """Collect the end of a job's run, after which it is retried if its policy says so.

        Args:
            cluster: last known state of the nodes.
            agent: what the agent has recorded; None if the scheduler alone explains the end.
        """
        policy = job.spec.retry
        # Restarts by the scheduler count as retries, too.
        runs = job.attempt + (changes.restart_count or job.restart_count)
        if changes.reason is None or not permits_retry(changes.reason, policy.on, runs, policy.max):
            self.collect_state(job, state, changes)
            return
        self._counts.add(RECONCILE, "retried")
        log.info("Job %s ended with reason %s and is retried.", job.id, changes.reason)
        self.collect_retry(job, state, with_excluded_nodes(job, changes, cluster, agent))

    async def write(self) -> bool:
        """Write the collected changes to the database, many rows in one transaction.

        A row that another process has changed meanwhile is not overwritten; if its job has ended,
        return True.
        """
        moves, self._moves = self._moves, []
        again, self._again = self._again, []
        epoch = self._leader.epoch
        dependents = [
            (move, entry.job)
            for move in moves
            if is_unexplained(move) and (entry := self._live.get(move.job_id)) is not None
        ]
        later = {move.job_id for move, _ in dependents}
        outdated = await self._apply_transitions(
            [move for move in moves if move.job_id not in later]
        )
        for start in range(0, len(dependents), WRITE):
            ended = dependents[start : start + WRITE]
            jobs = [job for _, job in ended]
            outdated |= await self._apply_transitions(
                await with_dependency_messages([move for move, _ in ended], jobs, self._store)
            )
        for job, state, changes in again:
            try:
                changed = await self._store.retry_job(
                    job.id, state, changes, attempt=job.attempt, epoch=epoch
                )
            except StaleEpoch:
                raise
            except (Conflict, NotFound) as error:
                log.info("Job %s was not retried: %s", job.id, error.message)
            else:
                self._live.update([changed])
        return outdated

    async def _apply_transitions(self, moves: Sequence[TransitionRequest]) -> bool:
        outdated = False
        for start in range(0, len(moves), WRITE):
            some = moves[start : start + WRITE]
            applied = await self._store.apply_transitions(some, epoch=self._leader.epoch)
            outdated |= any(
                job is None and move.to is not None and move.to.is_terminal
                for move, job in zip(some, applied, strict=True)
            )
            self._live.update(applied)
        return outdated
