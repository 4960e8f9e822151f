"""Jobs that users submitted with the scheduler's own commands, such as sbatch: their database rows
are updated from the scheduler's records.

The platform only observes these jobs. It never submits or retries them, and changes or cancels them
only when their owners request it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

from aitne.core.cluster.partition_defaults import NO_LIMIT_S
from aitne.core.errors import (
    AitneError,
    NotSupported,
    StaleEpoch,
    StoreUnavailable,
    Unavailable,
)
from aitne.core.jobs.array_job_state import array_id, counts_sentence
from aitne.core.jobs.states import TRANSITIONS, JobState, TerminationReason
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.job import Job, JobChanges, JobOrigin, JobSpec, JobType
from aitne.core.ports.outside_jobs import OutsideJob, OutsideJobs, OutsideRun
from aitne.services.controller.leader import Leader
from aitne.store import Store
from aitne.store.outside_jobs import JobOwner
from aitne.store.transitions import TransitionRequest

log = logging.getLogger(__name__)

EVERY_S = 5.0
SHARE = 10
"""Minimum pause after a query, as a multiple of the time that the query took, so that a long queue
causes no more load.
"""
ABSENCES = 3
"""Number of consecutive answers without a job after which its end is searched for in accounting."""
MOST_SEARCHED = 100
"""Maximum number of jobs in one query of accounting."""
SEARCH_AGAIN = timedelta(minutes=1)
MOST_NEW = 500
"""Maximum number of database rows added for one user in an hour."""
WRITE = 500
"""Time limit stored for a job that has none, in seconds."""

Key = tuple[str, str]
"""Scheduler ID and Unix account of a job."""


@dataclass(frozen=True, slots=True)
class OutsideConfig:
    """Adapter and settings with which the controller observes jobs that were not submitted through
    the platform.
    """

    jobs: OutsideJobs | None = None
    """Adapter for these jobs; None if the scheduler reports none."""
    cluster: str = "local"
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Unix account by user name, only for users whose account has another name."""


class OutsideWatch:
    """Task that stores the jobs that users of the platform submitted with the scheduler's own
    commands. The number of database rows is limited.
    """

    def __init__(
        self,
        store: Store,
        config: OutsideConfig,
        leader: Leader,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._config = config
        self._leader = leader
        self._clock = clock
        self._absences: dict[Key, int] = {}
        self._search_at: dict[Key, datetime] = {}
        self._ended: frozenset[OutsideRun] = frozenset()
        """Ended jobs in the last answer; their rows are complete and not compared again."""
        self._new: dict[str, int] = {}
        """Number of database rows added for each user in the current hour."""
        self._hour: datetime | None = None
        self._silent = False

    async def run(self) -> None:
        """Query the scheduler periodically until cancelled; return at once if it reports no such
        jobs.
        """
        if self._config.jobs is None:
            return
        while True:
            begun = monotonic()
            try:
                await self.update_jobs(self._config.jobs)
                self._silent = False
            except (StaleEpoch, StoreUnavailable):
                raise
            except AitneError as error:
                # Also a broker of an earlier release, which lacks the verb: the platform's own jobs
                # must not wait for it.
                if not self._silent:
                    log.warning("Jobs from outside are not updated: %s", error.message)
                self._silent = True
            await asyncio.sleep(max(EVERY_S, SHARE * (monotonic() - begun)))

    async def update_jobs(self, outside: OutsideJobs) -> None:
        """Query the scheduler once for such jobs and update their database rows.

        Raises ``SchedulerUnavailable``; then nothing is changed.
        """
        owners = await self._get_account_owners()
        rows = {_key_of(job): job for job in await self._store.list_live_outside_jobs()}
        records = await outside.list_jobs(owners.keys() | {account for _, account in rows})
        moves: list[TransitionRequest] = []
        new: list[OutsideJob] = []
        seen: set[Key] = set()
        # An ended run of the same ID must not hide the live one.
        for record in sorted(records, key=lambda record: record.state.is_terminal):
            key = (record.scheduler_id, record.account)
            job = rows.get(key)
            if job is None or key in seen or not _may_belong_to(record, job):
                new.append(record)
                continue
            seen.add(key)
            move = _make_transition(job, record, self._clock())
            if move is not None:
                moves.append(move)
        missing = [job for key, job in rows.items() if key not in seen]
        moves += await self._resolve_missing_jobs(outside, missing)
        self._absences = {key: self._absences.get(key, 0) for key in rows.keys() - seen}
        for start in range(0, len(moves), WRITE):
            await self._store.apply_transitions(
                moves[start : start + WRITE], epoch=self._leader.epoch
            )
        await self._add_jobs(new, owners)

    async def _get_account_owners(self) -> dict[str, JobOwner]:
        """Return the users by Unix account. An account that several users share belongs to the
        first user in alphabetical order.
        """
        owners: dict[str, JobOwner] = {}
        for name, owner in sorted((await self._store.list_job_owners()).items()):
            owners.setdefault(self._config.accounts.get(name, name), owner)
        return owners

    async def _add_jobs(
        self, records: Iterable[OutsideJob], owners: Mapping[str, JobOwner]
    ) -> None:
        now = self._clock()
        if self._hour is None or now >= self._hour + timedelta(hours=1):
            self._hour, self._new = now, {}
        room: dict[str, int] = {}
        jobs: list[Job] = []
        ended: list[OutsideRun] = []
        for record in records:
            owner = owners.get(record.account)
            run = OutsideRun(
                scheduler_id=record.scheduler_id,
                account=record.account,
                submitted_at=record.submitted_at,
            )
            if record.state.is_terminal:
                ended.append(run)
            if owner is None or run in self._ended:
                continue
            if room.setdefault(owner.name, MOST_NEW - self._new.get(owner.name, 0)) <= 0:
                continue
            room[owner.name] -= 1
            jobs.append(make_outside_job(record, owner, self._config.cluster))
        self._ended = frozenset(ended)
        for start in range(0, len(jobs), WRITE):
            some = jobs[start : start + WRITE]
            added = await self._store.add_outside_jobs(some, epoch=self._leader.epoch)
            for job in added:
                self._new[job.owner] = self._new.get(job.owner, 0) + 1

    async def _resolve_missing_jobs(
        self, outside: OutsideJobs, missing: Sequence[Job]
    ) -> list[TransitionRequest]:
        """Return the final states of jobs that were missing from several answers.

        The state is the one in accounting, or unknown if accounting has no record.
        """
        now = self._clock()
        due: dict[Key, Job] = {}
        for job in missing:
            key = _key_of(job)
            self._absences[key] = self._absences.get(key, 0) + 1
            waits = self._search_at.get(key, now) > now
            if self._absences[key] >= ABSENCES and not waits and len(due) < MOST_SEARCHED:
                due[key] = job
        self._search_at = {key: at for key, at in self._search_at.items() if at > now}
        if not due:
            return []
        self._search_at |= dict.fromkeys(due, now + SEARCH_AGAIN)
        runs = [make_outside_run(job) for job in due.values()]
        try:
            records = await outside.find_ended_jobs(runs)
        except NotSupported:
            return [_make_lost_transition(job, now) for job in due.values()]
        except Unavailable as error:
            log.warning("Accounting does not report the ends of jobs: %s", error.message)
            return []
        moves = [
            _make_transition(due[record.scheduler_id, record.account], record, now)
            for record in records
            if (record.scheduler_id, record.account) in due
        ]
        return [move for move in moves if move is not None]


def make_outside_job(record: OutsideJob, owner: JobOwner, cluster: str) -> Job:
    """Return the database row for a job that was not submitted through the platform; ``cluster`` is
    the name of the cluster.
    """
    charged = record.charged_account
    project = charged if charged in owner.projects else None
    spec = JobSpec.model_construct(
        type=JobType.JOB,
        name=record.name,
        project=project or owner.default_project,
        commands=() if record.command is None else (record.command,),
        workdir=record.workdir,
        resources=record.resources,
        max_duration_s=record.time_limit_s or NO_LIMIT_S,
        array=record.array,
        slurm=SlurmOptions(),
    )
    random_id = uuid4()
    job = Job(
        id=random_id if record.array is None else array_id(random_id),
        type=spec.type,
        name=spec.name,
        owner=owner.name,
        project=spec.project,
        cluster=cluster,
        origin=JobOrigin.OUTSIDE,
        state=record.state,
        account=record.account,
        scheduler_id=record.scheduler_id,
        created_at=record.submitted_at,
        submitted_at=record.submitted_at,
        spec=spec,
        scheduler_record=dict(record.raw),
    )
    return job.model_copy(update=_make_column_values(record))


def make_outside_run(job: Job) -> OutsideRun:
    """Return the ``OutsideRun`` that identifies the job, which was not submitted through the
    platform, in requests to the scheduler.
    """
    return OutsideRun(
        scheduler_id=job.scheduler_id or "",
        account=job.account or "",
        submitted_at=job.submitted_at or job.created_at,
    )


def _key_of(job: Job) -> Key:
    return job.scheduler_id or "", job.account or ""


def _may_belong_to(record: OutsideJob, job: Job) -> bool:
    """Return whether the scheduler's record belongs to the job: to the same submission, or to a
    requeue of it, whose submission time is later.
    """
    submitted_at = job.submitted_at or job.created_at
    again = record.restart_count > 0 or bool(record.tasks)
    return record.submitted_at == submitted_at or (again and record.submitted_at > submitted_at)


def _make_column_values(record: OutsideJob) -> dict[str, Any]:
    """Return the values of the job's database columns that follow from the scheduler's record."""
    start, limit_s = record.started_at, record.time_limit_s
    ends_later = start is not None and limit_s is not None and not record.tasks
    log = record.log
    return {
        # Slurm names it in the queue alone, and with %N after the start.
        **({} if log is None else {"log_path": log.path, "log_seal": log.seal}),
        "reason": record.reason,
        "message": _make_job_message(record),
        "restart_count": record.restart_count,
        "exit_code": record.exit_code,
        "signal": record.signal,
        "nodes": record.nodes,
        "partition": record.partition,
        "priority": record.priority,
        "submitted_at": record.submitted_at,
        "allocated_at": start,
        "started_at": start,
        "ended_at": record.ended_at,
        "expires_at": start + timedelta(seconds=limit_s)
        if ends_later and start is not None and limit_s is not None
        else None,
        "expected_start_at": record.expected_start_at,
    }


def _make_job_message(record: OutsideJob) -> str | None:
    """Return the message of the job: its pending reason or, for an array that has begun, the number
    of its tasks in each state.

    None if there is nothing to report.
    """
    if record.tasks.keys() - {JobState.QUEUED}:
        return counts_sentence(Counter(record.tasks))
    return record.pending_reason if record.state is JobState.QUEUED else None


def _make_transition(job: Job, record: OutsideJob, now: datetime) -> TransitionRequest | None:
    """Return the transition that makes the job's database row equal to the scheduler's record; None
    if they are equal already.
    """
    values = _make_column_values(record)
    if record.state.is_terminal:
        values["ended_at"] = record.ended_at or now
        if not record.raw:
            # Accounting has less than the queue had.
            kept = ("partition", "priority", "restart_count", "expires_at")
            values = {name: value for name, value in values.items() if name not in kept}
    elif job.cancel_requested_at is not None:
        values["message"] = job.message
    changes = {name: value for name, value in values.items() if getattr(job, name) != value}
    to = record.state
    if to is not job.state and to not in TRANSITIONS[job.state]:
        # The answers between were missed: every state leads to another one through the queue.
        to = JobState.QUEUED
    if not changes and to is job.state:
        return None
    if record.raw:
        changes["scheduler_record"] = dict(record.raw)
    return TransitionRequest(job.id, to, JobChanges(**changes), version=job.version)


def _make_lost_transition(job: Job, now: datetime) -> TransitionRequest:
    changes = JobChanges(
        reason=TerminationReason.LOST,
        message="The scheduler no longer has a record of it: how it ended is not known.",
        ended_at=now,
    )
    return TransitionRequest(job.id, JobState.LOST, changes, version=job.version)
