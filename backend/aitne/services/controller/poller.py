"""Polling: one query of the scheduler for all jobs, and the changes that follow from its answer.

A record that is the same Python object as in the previous answer, of a job whose row has not
changed, costs only one dictionary lookup: with 10,000 pending jobs a poll takes some milliseconds
and needs no database query.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from aitne.core.concurrent_coroutines import run_concurrently
from aitne.core.errors import (
    AitneError,
    SchedulerUnavailable,
    StaleEpoch,
    StoreUnavailable,
)
from aitne.core.jobs.agent_protocol import EXIT_DUPLICATE, EXIT_NO_FENCE
from aitne.core.jobs.states import STATE_OF_REASON, JobState, TerminationReason
from aitne.core.models.cluster import Cluster, SchedulerStatus
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.platform.metric_names import RECONCILE, SCHEDULER_LAST_POLL
from aitne.core.ports.job_files import JobFiles, JobLocation
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.services.controller.array_task_groups import ABSENCES, TaskGroups, without_tasks
from aitne.services.controller.canceller_lookup import with_cancellers
from aitne.services.controller.changes_from_records import (
    START_TIMEOUT,
    has_restarted,
    make_end_changes,
    make_lost_node_changes,
    make_progress_changes,
    needs_agent_outcome,
    too_many_starts,
)
from aitne.services.controller.collected_changes import CollectedChanges
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJob, LiveJobs
from aitne.services.controller.missing_run_resolution import (
    FenceOwner,
    MissingRunResolver,
    RunVerdict,
)
from aitne.services.controller.orphaned_jobs import OrphanedJobs
from aitne.services.controller.restored_jobs import RestoredJobs
from aitne.services.controller.run_identification import (
    choose_record,
    make_run,
    may_belong_to,
    records_by_job,
    task_record,
)
from aitne.services.controller.scheduler_state_loss import StateLoss
from aitne.services.controller.stale_state_check import StaleStateCheck
from aitne.store import Store

log = logging.getLogger(__name__)

SETTLING_S = 10.0
"""Seconds after a submission during which the job may be missing from the scheduler's answers."""
LOOK_AGAIN_S = 10.0
"""Seconds until the next search for a missing job whose state could not be determined."""
LOOKS_AT_ONCE = 8
SEARCH = 500
"""Maximum number of missing jobs in one search."""
CLUSTER_EVERY_S = 10.0
_BROKEN_OFF = frozenset({JobState.CANCELLED, JobState.NODE_FAILED, JobState.PREEMPTED})
"""States in which a run ended for a cause outside its program; after a crash of the scheduler they
may be wrong.
"""
SILENT_AFTER_S = 10.0
"""Seconds without an answer after which the scheduler is reported as silent."""


class Poller:
    """Component that polls the scheduler and updates the jobs in the database from its answers."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        leader: Leader,
        clock: Callable[[], datetime],
        counts: ControllerCounters,
        live: LiveJobs,
        restored: RestoredJobs,
        refusal: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Store the dependencies. ``refusal`` is that of ``Submitter``."""
        self._refusal = refusal
        self._store = store
        self._scheduler = scheduler
        self._restored = restored
        self._leader = leader
        self._clock = clock
        self._counts = counts
        self._live = live
        self._missing = MissingRunResolver(store, scheduler, files, place, clock)
        self._doubt = StaleStateCheck(self._missing, clock)
        self._task_groups = TaskGroups(store, live, clock)
        self._phantoms = OrphanedJobs(store, scheduler, counts, self._doubt)
        self._polls = 0
        self.behind = False
        """Whether the last answer contained changes that can only be resolved with the next
        answer.
        """
        self._settled: dict[int, LiveJob] = {}
        """Entries of jobs without pending changes, by the Python identity (``id``) of their
        record.
        """
        self._foreign: dict[int, SchedulerJob] = {}
        """Records of ended runs that belong to no live job, by their Python identity (``id``)."""
        self._keys = -1
        self._cluster = Cluster()
        self._cluster_due = float("-inf")
        self._status: SchedulerStatus | None = None
        self._answered_at: datetime | None = None
        self._changes = CollectedChanges(store, leader, counts, live)
        self._state_lost = StateLoss(store, counts)

    async def poll(self) -> bool:
        """Poll the scheduler once and store the changes.

        Return False if the scheduler did not answer; then nothing is stored.
        """
        # Noted before the query: an answer may only be applied to older rows.
        tick = self._live.tick
        try:
            answer = await self._query_scheduler()
        except SchedulerUnavailable as error:
            log.warning("The scheduler does not answer: %s", error.message)
            self._doubt.postpone_search()
            await self._store_scheduler_status(responding=False, message=error.message)
            return False
        await self._store_scheduler_status(responding=True, message=self._refusal())
        self._counts.set_value(SCHEDULER_LAST_POLL, self._clock().timestamp())
        self._polls += 1
        self.behind = False
        news, strangers = self._compare_answer(answer)
        if any(record.state is JobState.NODE_FAILED for _, records in news for record in records):
            await self._read_cluster(changed=True)
        news = await self._task_groups.split_groups(news, tick)
        news = await with_cancellers(self._store, self._scheduler, self._live, news)
        for entry, records in news:
            if records and entry.changed_at <= tick and entry.submitted:
                await self._run_safely(entry.job, self._apply_records(entry, records))
            else:
                self.behind = True
        await self._search_missing(tick)
        for job, verdict in await self._doubt.find_ended(lambda: self._list_running(tick)):
            self._collect_verdict(job, verdict)
        changed = bool(self._changes)
        if await self._changes.write():
            self.behind = True
        await self._state_lost.report()
        await self._phantoms.cancel_orphans(strangers)
        await self._read_cluster(changed)
        return True

    async def _query_scheduler(self) -> Sequence[SchedulerJob]:
        query = asyncio.ensure_future(self._scheduler.poll())
        try:
            answered, _ = await asyncio.wait({query}, timeout=SILENT_AFTER_S)
            if not answered:
                message = f"it has not answered within {SILENT_AFTER_S:.0f} s."
                await self._store_scheduler_status(responding=False, message=message)
            return await query
        finally:
            query.cancel()

    async def _store_scheduler_status(self, *, responding: bool, message: str | None) -> None:
        """Store whether the scheduler answers and accepts jobs, for other processes; written only
        when that changes.
        """
        before, now = self._status, self._clock()
        since = None
        if before is None or before.responding is not responding:
            since = now if responding else self._answered_at or now
        elif responding and before.message != message:
            since = before.since
        if since is not None:
            self._status = SchedulerStatus(responding=responding, since=since, message=message)
            await self._store.save_scheduler_status(self._status, epoch=self._leader.epoch)
        if responding:
            self._answered_at = now

    # --- jobs in the answer ----------------------------------------------------------------------

    def _compare_answer(
        self, answer: Sequence[SchedulerJob]
    ) -> tuple[list[tuple[LiveJob, list[SchedulerJob]]], list[SchedulerJob]]:
        """Compare the answer with the live jobs.

        Return the entries of jobs with new records, each with these records, and the live records
        that belong to no live job.
        """
        poll, settled, foreign = self._polls, self._settled, self._foreign
        if self._keys != self._live.keys:
            self._keys = self._live.keys
            foreign = self._foreign = {}
        if len(settled) > 2 * len(self._live) + 100:
            by_record = {
                id(entry.record): entry for entry in self._live if entry.settled is not None
            }
            settled = self._settled = by_record
        fresh: list[SchedulerJob] = []
        for record in answer:
            number = id(record)
            entry = settled.get(number)
            if entry is not None and entry.record is record and entry.settled is entry.job:
                entry.poll = poll
            elif foreign.get(number) is not record:
                fresh.append(record)
        if len(foreign) > 2 * len(answer) + 100:
            self._foreign = {}
        matches: dict[int, tuple[LiveJob, list[SchedulerJob]]] = {}
        strangers: list[SchedulerJob] = []
        for record in fresh:
            entries = [
                entry
                for entry in self._live.list_matching(record)
                if may_belong_to(record, entry.job)
            ]
            rest = without_tasks(record, entries)
            if rest is not None and not record.state.is_terminal:
                strangers.append(rest)
            elif not entries:
                self._foreign[id(record)] = record
            for entry in entries:
                match = matches.setdefault(id(entry), (entry, []))
                if entry.poll == poll and not match[1] and entry.record is not None:
                    match[1].append(entry.record)
                task = entry.job.array_task_id
                match[1].append(record if task is None else task_record(record, task))
        for entry, _ in matches.values():
            entry.poll = poll
        return [*matches.values()], strangers

    async def _search_missing(self, tick: int) -> None:
        """Search the scheduler, with one query, for all jobs that were missing from several of its
        answers.

        ``tick`` is the value of the change counter ``LiveJobs.tick`` before the last poll.
        """
        now = self._clock()
        due: list[LiveJob] = []
        for entry in self._live:
            if entry.poll == self._polls:
                entry.absences = 0
                entry.missed_at, entry.seen_at = None, now
            elif entry.submitted and entry.changed_at <= tick:
                entry.absences += 1
                entry.missed_at = entry.missed_at or now
                since = entry.job.submitted_at or entry.job.created_at
                young = now < since + timedelta(seconds=SETTLING_S)
                if (
                    not young
                    and entry.absences >= ABSENCES
                    and (entry.look_again_at is None or entry.look_again_at <= now)
                ):
                    due.append(entry)
        for entry in [entry for entry in due if entry.job.is_task_group]:
            due.remove(entry)
            await self._task_groups.split_missing_group(entry, tick)
        for start in range(0, len(due), SEARCH):
            await self._search_entries(due[start : start + SEARCH])

    async def _search_entries(self, entries: Sequence[LiveJob]) -> None:
        try:
            answer = await self._scheduler.find_records([make_run(entry.job) for entry in entries])
        except SchedulerUnavailable as error:
            log.warning("Missing jobs cannot be searched for: %s", error.message)
            # Accounting that hangs would delay every poll by its timeout.
            for entry in entries:
                entry.look_again_at = self._clock() + timedelta(seconds=LOOK_AGAIN_S)
            return
        slots = asyncio.Semaphore(LOOKS_AT_ONCE)
        by_job = records_by_job([entry.job for entry in entries], answer)

        async def look(entry: LiveJob) -> None:
            async with slots:
                records = by_job[entry.job.id]
                entry.look_again_at = self._clock() + timedelta(seconds=LOOK_AGAIN_S)
                if records:
                    await self._run_safely(entry.job, self._apply_records(entry, records))
                else:
                    await self._run_safely(entry.job, self._resolve_missing(entry))

        await run_concurrently(map(look, entries))

    async def _run_safely(self, job: Job, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (StoreUnavailable, StaleEpoch):
            raise
        except AitneError as error:
            # An error with one job's files, account or ID must not affect other jobs.
            log.warning("Job %s is left for the next poll: %s", job.id, error.message)

    def _list_running(self, tick: int) -> list[Job]:
        """List the jobs that are running both in this answer and in their database rows, and have
        no pending change.
        """
        moved = self._changes.job_ids
        return [
            entry.job
            for entry in self._live
            if entry.poll == self._polls
            and entry.job.state.is_active
            and entry.changed_at <= tick
            and entry.job.id not in moved
        ]

    # --- changes of jobs -------------------------------------------------------------------------

    async def _resolve_missing(self, entry: LiveJob) -> None:
        since = entry.missed_at or self._clock()
        job = entry.job
        verdict = await self._missing.resolve_missing(job, since, self._cluster, entry.seen_at)
        if verdict is None:
            return
        if verdict.state is JobState.LOST and self._restored.submitted_before(job):
            verdict = await self._missing.lost_since_backup(job, verdict)
            if not verdict.again:
                # Without a retry: it may have completed.
                self._counts.add(RECONCILE, "lost")
                self._changes.collect_state(job, verdict.state, verdict.changes)
                return
        self._collect_verdict(job, verdict)

    def _collect_verdict(self, job: Job, verdict: RunVerdict) -> None:
        self._doubt.schedule_search()
        self._state_lost.record_loss(verdict.lost_at)
        self._counts.add(RECONCILE, "resubmitted" if verdict.again else verdict.state.lower())
        if verdict.again:
            self._changes.collect_retry(job, verdict.state, verdict.changes)
        else:
            self._changes.collect_end(job, verdict.state, verdict.changes, self._cluster)

    async def _apply_records(self, entry: LiveJob, records: Iterable[SchedulerJob]) -> None:
        job, record = entry.job, choose_record(records)
        if record is None:
            return
        if record.state.is_terminal and record.exit_code == EXIT_DUPLICATE:
            since = record.ended_at or self._clock()
            judged = await self._missing.resolve_duplicate(job, record, since, self._cluster)
            if not isinstance(judged, FenceOwner):
                if judged is not None:
                    self._collect_verdict(job, judged)
                return
            record = judged.record
        if record.state is JobState.FAILED and record.exit_code == EXIT_NO_FENCE:
            verdict = await self._missing.resolve_unusable_folder(job)
            if verdict is not None:
                self._collect_verdict(job, verdict)
                return
        broken_off = record.state in _BROKEN_OFF or record.reason is TerminationReason.START_FAILED
        # After a restoration the files may be gone: the job may have been deleted since the backup.
        files_count = not self._restored.submitted_before(job)
        if broken_off and job.cancel_requested_at is None and files_count:
            verdict = await self._missing.check_reported_end(job, record)
            if verdict is not None:
                self._collect_verdict(job, verdict)
                return
        if record.state.is_terminal:
            agent_record = None
            if needs_agent_outcome(job, record):
                agent_record = await self._missing.read_agent_outcome(job, record)
            changes = make_end_changes(job, record, self._clock(), agent_record, self._cluster)
            # The scheduler only knows that the agent failed; the agent's record has the reason.
            told = agent_record or changes.reason is not record.reason
            state = STATE_OF_REASON[changes.reason] if told and changes.reason else record.state
            self._changes.collect_end(job, state, changes, self._cluster, agent_record)
            return
        if has_restarted(job, record) and await self._cancel_if_ended(job, record):
            return
        if too_many_starts(job, record) and await self._missing.has_begun(job):
            await self._stop_repeated_start(job, record)
            return
        if await self._cancel_if_never_started(job):
            return
        if (lost := make_lost_node_changes(job, record, self._clock(), self._cluster)) is not None:
            await self._scheduler.cancel(make_run(job))
            self._changes.collect_end(job, JobState.NODE_FAILED, lost, self._cluster)
            return
        session = None if job.session_id is None else self._live.get(job.session_id)
        ends = None if session is None else session.job.expires_at
        state, changes = make_progress_changes(job, record, self._clock(), ends)
        self.behind |= record.state.is_active and not state.is_active
        if job.scheduler_id is not None and record.scheduler_id != job.scheduler_id:
            # Of several runs of one attempt this is the one that counts.
            changes = changes.model_copy(update={"scheduler_id": record.scheduler_id})
        if state is not job.state or changes.model_fields_set:
            self._changes.collect_state(job, state, changes)
        elif state is not JobState.STARTING and entry.covers(record):
            # Entries that change with time alone are judged in every poll.
            entry.record, entry.settled = record, job
            self._settled[id(record)] = entry

    async def _cancel_if_ended(self, job: Job, record: SchedulerJob) -> bool:
        """Cancel a job that the scheduler starts again although its program has ended by itself, as
        after a crash of the scheduler. Return False if it has not ended.
        """
        verdict = await self._missing.check_reported_end(job, record)
        if verdict is None:
            return False
        await self._cancel_scheduler_job(job, record)
        self._collect_verdict(job, verdict)
        return True

    async def _cancel_scheduler_job(self, job: Job, record: SchedulerJob) -> None:
        await self._scheduler.cancel(
            make_run(job).model_copy(update={"scheduler_id": record.scheduler_id})
        )

    async def _stop_repeated_start(self, job: Job, record: SchedulerJob) -> None:
        if await self._cancel_if_ended(job, record):
            return
        await self._cancel_scheduler_job(job, record)
        changes = JobChanges(
            reason=TerminationReason.NODE_FAILED,
            message=f"The scheduler started it {record.restart_count + 1} times, more often than "
            "its retry policy allows.",
            restart_count=record.restart_count,
            ended_at=self._clock(),
        )
        self._changes.collect_state(job, JobState.NODE_FAILED, changes)

    async def _cancel_if_never_started(self, job: Job) -> bool:
        since = job.allocated_at
        waits = job.type is JobType.SESSION and job.state is JobState.STARTING
        if not waits or since is None or self._clock() < since + START_TIMEOUT:
            return False
        if job.scheduler_id is not None:
            await self._scheduler.cancel(make_run(job))
        changes = JobChanges(
            reason=TerminationReason.START_FAILED,
            message="The agent did not report from the allocation; see the log.",
            ended_at=self._clock(),
        )
        self._changes.collect_end(job, JobState.FAILED, changes, self._cluster)
        return True

    async def _read_cluster(self, changed: bool) -> None:
        now = asyncio.get_running_loop().time()
        if not changed and now < self._cluster_due:
            return
        try:
            self._cluster = await self._scheduler.read_cluster()
        except SchedulerUnavailable as error:
            log.warning("The nodes cannot be queried: %s", error.message)
            return
        self._cluster_due = now + CLUSTER_EVERY_S
        await self._store.save_cluster(self._cluster, epoch=self._leader.epoch)
