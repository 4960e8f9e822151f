"""Streaming of logs. All readers of a log share one periodic check for new output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from uuid import UUID

from aitne.core.errors import AitneError, NotSupported
from aitne.core.jobs.states import permits_retry
from aitne.core.models.job import Job
from aitne.core.ports.job_files import JobFiles, JobLocation, LogChunk
from aitne.core.ports.outside_jobs import OutsideJobs, OutsideLog
from aitne.store import Store

GROWTH_INTERVAL_S = 0.2
"""Seconds between two checks of the size of a log that is being streamed."""
STATE_EVERY = 3
"""Number of size checks without growth after which the job's state is read again."""
RETRY_PATIENCE_S = 10.0
"""Maximum seconds to wait for the next attempt after an attempt that the job's retry policy permits
to retry.
"""
CHUNK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class LogSource:
    """Location of the log of a job or task."""

    row_id: UUID
    """ID of the database row of the job or task."""
    place: JobLocation
    """Location of the job folder, for any attempt; each read specifies the attempt."""
    task: int | None
    """Index of the task in its array; None: the job is not a task of an array."""
    outside: OutsideLog | None = None
    """Log of a job that was not submitted through the platform and has no job folder; None for all
    others.
    """


@dataclass(slots=True)
class _Watch:
    """State of one log that is being followed. ``changed`` is replaced by a new event each time it
    is set.
    """

    attempt: int
    ended: bool
    size: int = -1
    error: AitneError | None = None
    followers: int = 0
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify_followers(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def _has_ended_for_good(job: Job) -> bool:
    """Return whether the job has ended and no further attempt follows."""
    policy = job.spec.retry
    again = (
        job.reason is not None
        and job.cancel_requested_at is None
        and permits_retry(job.reason, policy.on, job.attempt, policy.max)
    )
    return job.state.is_terminal and not again


def _outside_log(job: Job, task: int | None) -> OutsideLog | None:
    if job.log_path is None or job.account is None or job.scheduler_id is None:
        return None
    return OutsideLog(
        scheduler_id=job.scheduler_id,
        account=job.account,
        submitted_at=job.submitted_at or job.created_at,
        path=job.log_path,
        task=task,
        seal=job.log_seal,
    )


class LogFollower:
    """Component that reads logs and streams them while they grow. All followers of a log share one
    periodic check for new output.
    """

    def __init__(
        self,
        store: Store,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        outside: OutsideJobs | None = None,
        *,
        growth_interval_s: float = GROWTH_INTERVAL_S,
    ) -> None:
        self._store = store
        self._files = files
        self._place = place
        self._outside = outside
        self._interval_s = growth_interval_s
        self._watches: dict[LogSource, _Watch] = {}

    async def read(
        self, job: Job, offset: int, limit: int, *, outside_task: int | None = None
    ) -> LogChunk:
        """Return up to ``limit`` bytes, from ``offset`` on, of the log of the job's current
        attempt.

        ``outside_task`` is the array index of a task whose array was not submitted through the
        platform; such tasks have no database rows.
        """
        return await self._read_chunk(
            self._make_log_source(job, outside_task), job.attempt, offset, limit
        )

    def _make_log_source(self, job: Job, outside_task: int | None) -> LogSource:
        place = self._place(job).model_copy(update={"attempt": 0})
        return LogSource(job.id, place, job.array_task_id, _outside_log(job, outside_task))

    async def _read_chunk(
        self, source: LogSource, attempt: int, offset: int, limit: int
    ) -> LogChunk:
        if source.outside is not None:
            if self._outside is None:
                raise NotSupported("The scheduler reports no jobs that were submitted past it.")
            return await self._outside.read_log(source.outside, offset=offset, limit=limit)
        place = source.place.model_copy(update={"attempt": attempt})
        return await self._files.read_log(place, source.task, offset=offset, limit=limit)

    async def follow(
        self, job: Job, offset: int, *, outside_task: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log from ``offset`` on until the job has ended and the whole log was read.

        A negative ``offset`` counts from the end. After a retry, the log of the next attempt
        follows from its beginning. ``outside_task`` is as in ``read``. Raises ``Unavailable`` when
        the log can no longer be read.
        """
        source = self._make_log_source(job, outside_task)
        watch = self._add_follower(source, job)
        try:
            attempt = job.attempt
            while True:
                # Taken before the read: what is written after it sets this very event.
                changed, has_ended, now = watch.changed, watch.ended, watch.attempt
                chunk = await self._read_chunk(source, attempt, offset, CHUNK_BYTES)
                offset = chunk.offset + len(chunk.data)
                if chunk.data:
                    yield chunk.data
                elif attempt != now:
                    attempt, offset = now, 0
                elif has_ended:
                    return
                elif watch.error is not None:
                    raise watch.error
                else:
                    await changed.wait()
        finally:
            self._remove_follower(source, watch)

    def _add_follower(self, source: LogSource, job: Job) -> _Watch:
        watch = self._watches.get(source)
        if watch is None or watch.error is not None or watch.ended:
            watch = _Watch(job.attempt, _has_ended_for_good(job))
            self._watches[source] = watch
            if not watch.ended:
                watch.task = asyncio.create_task(self._check_for_output(source, watch))
        watch.followers += 1
        return watch

    def _remove_follower(self, source: LogSource, watch: _Watch) -> None:
        watch.followers -= 1
        if watch.followers == 0:
            if watch.task is not None:
                watch.task.cancel()
            if self._watches.get(source) is watch:
                del self._watches[source]

    async def _check_for_output(self, source: LogSource, watch: _Watch) -> None:
        quiet = 0
        ended_at: float | None = None
        try:
            while not watch.ended:
                size = (await self._read_chunk(source, watch.attempt, 0, 0)).size
                if size != watch.size:
                    watch.size, quiet = size, 0
                    watch.notify_followers()
                else:
                    quiet += 1
                # A log that grows all the time must not hide that its job has ended or was retried.
                if quiet % STATE_EVERY == 0:
                    job = await self._store.get_job(source.row_id)
                    now = asyncio.get_running_loop().time()
                    ended_at = (ended_at or now) if job.state.is_terminal else None
                    gave_up = ended_at is not None and now - ended_at > RETRY_PATIENCE_S
                    if _has_ended_for_good(job) or gave_up or job.attempt != watch.attempt:
                        watch.ended, watch.attempt = (
                            _has_ended_for_good(job) or gave_up,
                            job.attempt,
                        )
                        watch.size = -1
                        watch.notify_followers()
                await asyncio.sleep(self._interval_s)
        except AitneError as error:
            watch.error = error
            watch.notify_followers()
