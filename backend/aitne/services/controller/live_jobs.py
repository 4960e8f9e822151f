"""Copy of all live jobs in the memory of the leader: read from the database once, then updated by
events.

With it, a poll of the scheduler needs no database query. A copy may be slightly outdated: every
update contains the version of the row that it is based on, and is rejected if the row has changed
since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from aitne.core.jobs.array_job_state import task_id
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.event import Event
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import parse_array
from aitne.services.controller.run_identification import Key, indices_of, make_record_key
from aitne.store import Store

SUBMITTED = LIVE - {JobState.PENDING_SUBMIT, JobState.SUBMITTING, JobState.UNCERTAIN}
"""States of jobs that the scheduler has, as far as the platform knows."""


class LiveJob:
    """Entry of ``LiveJobs``: the copy of one live job's database row, with results of the
    scheduler's polls.
    """

    __slots__ = (
        "absences",
        "changed_at",
        "job",
        "key",
        "look_again_at",
        "missed_at",
        "poll",
        "record",
        "seen_at",
        "settled",
        "submitted",
        "tasks",
    )

    def __init__(self, job: Job, tick: int) -> None:
        self.poll = 0
        """Number of the last poll whose answer contained the job."""
        self.absences = 0
        self.missed_at: datetime | None = None
        """Time of the first poll without the job after the last poll that contained it; None if the
        last poll contained it.
        """
        self.seen_at: datetime | None = None
        """Time of the last poll that contained the job; None if this process has seen none."""
        self.look_again_at: datetime | None = None
        self.record: SchedulerJob | None = None
        """Last record of the job from the scheduler."""
        self.settled: Job | None = None
        """Copy of the row that has no differences from ``record``."""
        self.update(job, tick)

    def covers(self, record: SchedulerJob) -> bool:
        """Return whether the scheduler's record is of exactly the tasks of the job, so that no update is
        needed while the record does not change.
        """
        task = self.job.array_task_id
        if self.job.is_task_group:
            return record.array_task_ids is not None and indices_of(record) == self.tasks
        return task is None or record.array_task_id == task

    def update(self, job: Job, tick: int) -> None:
        """Replace the copy of the job's database row with a newer one. ``tick`` is the value of
        ``LiveJobs.tick`` at this change.
        """
        self.job = job
        self.key: Key = make_record_key(job)
        self.changed_at = tick
        self.submitted = job.state in SUBMITTED and not job.is_array
        self.tasks: frozenset[int] = frozenset()
        """Indices of the tasks of a task group."""
        if job.array_task_ids is not None:
            self.tasks = frozenset(parse_array(job.array_task_ids).indices)


class LiveJobs:
    """The leader's copy of the database rows of all jobs that have not ended. Jobs are found by ID,
    or by the key of the scheduler's records.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[UUID, LiveJob] = {}
        self._by_key: dict[Key, LiveJob] = {}
        self._groups: dict[tuple[UUID, int], LiveJob] = {}
        self._tasks: dict[tuple[UUID, int], dict[int, LiveJob]] = defaultdict(dict)
        """Entries of task groups and of tasks with rows of their own, by array job and attempt,
        then by index.
        """
        self._seen = 0
        self.tick = 0
        """Counter that is incremented with each change of a copy. Its value before a query shows
        whether a copy was changed later than the scheduler answered.
        """
        self.keys = 0
        """Number of times that a new key for scheduler records was added."""

    async def load(self) -> None:
        """Read the rows of all live jobs from the database.

        Called each time this controller becomes the leader, because the previous leader may have
        changed the rows.
        """
        self._seen = await self._store.get_last_event_id()
        self._entries.clear()
        self._by_key.clear()
        self._groups.clear()
        self._tasks.clear()
        self.update(await self._store.list_live_jobs())

    async def catch_up(self) -> Sequence[Event]:
        """Update this copy with the changes in the database since the last call; return their
        events, oldest first.
        """
        events = await self._store.list_events_after(self._seen)
        changed: dict[UUID, Event] = {}
        for event in events:
            self._seen = event.id
            # Jobs from outside are not the poll's.
            if event.job_id is not None and "version" in event.data and "origin" not in event.data:
                changed[event.job_id] = event
        stale = [job_id for job_id in _list_split_tasks(events) if job_id not in self._entries]
        for job_id, event in changed.items():
            entry = self._entries.get(job_id)
            if entry is not None and int(event.data["version"]) <= entry.job.version:
                continue
            if not JobState(event.data["state"]).is_terminal:
                stale.append(job_id)
            elif entry is not None:
                self._drop_entry(entry)
        if stale:
            jobs = await self._store.find_jobs(stale)
            self.update(jobs)
            for job_id in {*stale}.difference(job.id for job in jobs):
                self.forget(job_id)  # a task group that its last task has left
        return events

    def forget(self, job_id: UUID) -> None:
        """Remove a job from this copy, because its row in the database no longer exists."""
        entry = self._entries.get(job_id)
        if entry is not None:
            self._drop_entry(entry)

    def update(self, jobs: Iterable[Job | None]) -> None:
        """Update the cached jobs after this controller has changed their rows.

        Jobs that have ended are removed; None and versions that are not newer are ignored. A new
        attempt of a job starts with an empty entry.
        """
        for job in jobs:
            if job is None:
                continue
            entry = self._entries.get(job.id)
            if entry is not None and job.version <= entry.job.version:
                continue
            self.tick += 1
            if job.state.is_terminal:
                if entry is not None:
                    self._drop_entry(entry)
                continue
            if entry is not None and entry.key == make_record_key(job):
                entry.update(job, self.tick)
                continue
            if entry is not None:
                # Another attempt: the results of the previous one do not apply to it.
                self._drop_entry(entry)
            entry = self._entries[job.id] = LiveJob(job, self.tick)
            self.keys += 1
            if job.is_task_group:
                self._groups[entry.key[:2]] = entry
                continue
            self._by_key[entry.key] = entry
            if job.array_task_id is not None:
                self._tasks[entry.key[:2]][job.array_task_id] = entry

    def _drop_entry(self, entry: LiveJob) -> None:
        job = self._entries.pop(entry.job.id, entry).job
        entry.settled = None
        if job.is_task_group:
            self._groups.pop(entry.key[:2], None)
            return
        self._by_key.pop(entry.key, None)
        if job.array_task_id is not None:
            tasks = self._tasks[entry.key[:2]]
            tasks.pop(job.array_task_id, None)
            if not tasks:
                del self._tasks[entry.key[:2]]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[LiveJob]:
        return iter(self._entries.values())

    def get(self, job_id: UUID) -> LiveJob | None:
        """Return the entry of the job; None if the job has ended or is not known yet."""
        return self._entries.get(job_id)

    def list_matching(self, record: SchedulerJob) -> Sequence[LiveJob]:
        """List the entries of the live jobs to which the scheduler's record may belong. A record
        that covers several tasks of an array may belong to several entries.
        """
        run = (record.job_id, record.attempt)
        group = self._groups.get(run)
        if record.array_task_ids is None:
            entry = self._by_key.get((*run, record.array_task_id))
            if entry is None and group is not None and record.array_task_id in group.tasks:
                entry = group
            return () if entry is None else (entry,)
        indices = indices_of(record)
        groups = [] if group is None or indices.isdisjoint(group.tasks) else [group]
        tasks = self._tasks.get(run, {})
        return groups + [entry for index, entry in tasks.items() if index in indices]


def _list_split_tasks(events: Iterable[Event]) -> Iterator[UUID]:
    """Yield the IDs of the tasks that have received database rows of their own, according to the
    events.
    """
    for event in events:
        if "split_task_ids" in event.data:
            array = UUID(event.data["array_job_id"])
            for index in parse_array(event.data["split_task_ids"]).indices:
                yield task_id(array, index)
