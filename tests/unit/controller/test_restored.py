"""A database restored from a backup, over a scheduler and job folders that have moved on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.audit import RESTORE, AuditDraft, Outcome
from aitne.core.models.job import Job, RetryPolicy
from aitne.store.database_backup import copy_sqlite
from tests.support.fakes import NeverStarts, SlowStart, Vanishes
from tests.support.files import MemoryFiles
from tests.support.jobs import make_job


class Disaster:
    """A platform that makes a backup, goes on, and is restored from the backup."""

    def __init__(self, bench: Any, tmp_path: Path, scheduler: Any) -> None:
        self._bench = bench
        self._copy = tmp_path / "backup.db"
        self.scheduler = scheduler
        self.before: Any = None

    async def start(self) -> Any:
        self.before = await self._bench(self.scheduler)
        return self.before

    def back_up(self) -> None:
        copy_sqlite(self.before.settings.data_dir / "aitne.db", self._copy)

    async def restore(self) -> Any:
        """Restore the platform an hour later."""
        clock = self.before.clock
        clock.advance(3_600)
        # The platform removes the files that only a running job needs once it has ended.
        after = await self._bench(
            self.scheduler, database=self._copy, files=MemoryFiles(fences=self.before.files.fences)
        )
        await after.store.append_audit_entry(
            AuditDraft(time=clock(), actor="root", action=RESTORE, outcome=Outcome.ALLOWED)
        )
        await after.restored.load()
        clock.advance(1)
        return after


async def _settle(b: Any) -> None:
    """Let time pass until every search is over."""
    for _ in range(6):
        await b.outbox.drain()
        await b.poller.poll()
        b.clock.advance(20)


async def _begun(b: Any, job: Job) -> None:
    await b.store.create_job(job, ())
    await b.outbox.drain()
    await b.poller.poll()
    await b.begins(job)


async def _backed_up(
    bench: Any, tmp_path: Path, *retried: TerminationReason
) -> tuple[Disaster, Any, Job]:
    """Back up a platform with a job that runs, and is retried after ends for these reasons."""
    disaster = Disaster(bench, tmp_path, Vanishes())
    b = await disaster.start()
    retry = {"retry": RetryPolicy(max=3, on=frozenset(retried))} if retried else {}
    job = make_job(spec=retry)
    await _begun(b, job)
    disaster.back_up()
    return disaster, b, job


async def test_job_submitted_after_the_backup_is_found_and_runs_once(
    bench: Any, tmp_path: Path
) -> None:
    disaster = Disaster(bench, tmp_path, SlowStart())
    b = await disaster.start()
    known, unknown = make_job(), make_job()
    await b.store.create_job(known, ())
    disaster.back_up()
    await b.store.create_job(unknown, ())
    await b.outbox.drain()

    b = await disaster.restore()
    await _settle(b)
    assert [request.job_id for request in b.scheduler.requests].count(known.id) == 1
    assert len(b.scheduler.requests) == 2
    job = await b.job(known.id)
    own = next(r.scheduler_id for r in b.scheduler.records.values() if r.job_id == known.id)
    assert (job.state, job.scheduler_id, job.attempt) == (JobState.QUEUED, own, 1)
    # What was accepted after the backup is not known, and left alone.
    assert b.scheduler.cancelled == []
    b.scheduler.let_go()
    await b.begins(known)
    b.scheduler.finish(own)
    await b.poller.poll()
    assert await b.state(known.id) is JobState.COMPLETED


async def test_job_that_was_never_submitted_is_submitted_once(bench: Any, tmp_path: Path) -> None:
    disaster = Disaster(bench, tmp_path, NeverStarts())
    b = await disaster.start()
    job = make_job()
    await b.store.create_job(job, ())
    disaster.back_up()

    b = await disaster.restore()
    await _settle(b)
    assert [request.job_id for request in b.scheduler.requests] == [job.id]
    assert await b.state(job.id) is JobState.QUEUED
    # New jobs need no search.
    searches, new = b.scheduler.searches, make_job(created_at=b.clock())
    await b.store.create_job(new, ())
    await b.outbox.drain()
    assert (len(b.scheduler.requests), b.scheduler.searches) == (2, searches)


async def test_job_that_ended_after_the_backup_gets_its_outcome(bench: Any, tmp_path: Path) -> None:
    disaster, b, job = await _backed_up(bench, tmp_path)
    b.scheduler.finish("1", JobState.TIMED_OUT, TerminationReason.TIMED_OUT, None)
    await b.poller.poll()

    b = await disaster.restore()
    await _settle(b)
    assert await b.state(job.id) is JobState.TIMED_OUT


@pytest.mark.parametrize("forgotten", [False, True])
async def test_retry_begun_after_the_backup_is_adopted(
    bench: Any, tmp_path: Path, forgotten: bool
) -> None:
    """The scheduler may have forgotten the attempt of the backup, or not."""
    disaster, b, job = await _backed_up(bench, tmp_path, TerminationReason.NODE_FAILED)
    b.scheduler.finish("1", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    await b.outbox.drain()
    await b.begins(job)
    assert [request.attempt for request in b.scheduler.requests] == [1, 2]
    if forgotten:
        b.scheduler.vanish("1")
        b.files.fences.clear()

    b = await disaster.restore()
    await _settle(b)
    assert [request.attempt for request in b.scheduler.requests] == [1, 2]
    assert b.scheduler.cancelled == []
    adopted = await b.job(job.id)
    assert (adopted.attempt, adopted.scheduler_id) == (2, "2")
    assert adopted.state.is_active


@pytest.mark.parametrize("deleted", [False, True])
async def test_job_without_a_trace_is_not_repeated(
    bench: Any, tmp_path: Path, deleted: bool
) -> None:
    """It completed, the scheduler forgot it, and perhaps its owner deleted it with its folder."""
    disaster, b, job = await _backed_up(bench, tmp_path, TerminationReason.LOST)
    b.scheduler.finish("1")
    await b.poller.poll()
    b.scheduler.vanish("1")
    if deleted:
        b.files.fences.clear()

    b = await disaster.restore()
    for _ in range(20):
        await _settle(b)
    lost = await b.job(job.id)
    assert (lost.state, lost.attempt) == (JobState.LOST, 1)
    assert "restored from a backup" in str(lost.message)
    assert len(b.scheduler.requests) == 1


async def test_adopted_job_that_lost_its_trace_is_not_repeated(bench: Any, tmp_path: Path) -> None:
    """It waited at the time of the backup, and was submitted since."""
    disaster = Disaster(bench, tmp_path, Vanishes())
    b = await disaster.start()
    retry = RetryPolicy(max=3, on=frozenset({TerminationReason.LOST}))
    job = make_job(spec={"retry": retry})
    await b.store.create_job(job, ())
    disaster.back_up()
    await b.outbox.drain()
    await b.poller.poll()
    await b.begins(job)

    b = await disaster.restore()
    await _settle(b)
    assert (await b.job(job.id)).scheduler_id == "1"
    b.scheduler.vanish("1")
    b.files.fences.clear()
    for _ in range(20):
        await _settle(b)
    lost = await b.job(job.id)
    assert (lost.state, lost.attempt) == (JobState.LOST, 1)
    assert len(b.scheduler.requests) == 1


async def test_run_ended_with_its_folder_deleted_is_not_repeated(
    bench: Any, tmp_path: Path
) -> None:
    """Without its fence, a run with nodes that was cancelled looks as if it had never begun."""
    disaster, b, job = await _backed_up(bench, tmp_path)
    b.scheduler.finish("1", JobState.CANCELLED, TerminationReason.CANCELLED, None)
    b.files.fences.clear()

    b = await disaster.restore()
    await _settle(b)
    assert (await b.job(job.id)).attempt == 1
    assert await b.state(job.id) is JobState.CANCELLED
    assert len(b.scheduler.requests) == 1


async def test_later_attempt_than_the_database_has_is_not_cancelled(
    bench: Any, tmp_path: Path
) -> None:
    """The backup has an attempt that had failed for good; two more had begun since."""
    disaster = Disaster(bench, tmp_path, Vanishes())
    b = await disaster.start()
    job = make_job()
    await _begun(b, job)
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    disaster.back_up()
    record = b.scheduler.records["1"]
    later = {"scheduler_id": "7", "attempt": 3, "state": JobState.RUNNING, "ended_at": None}
    b.scheduler.records["7"] = record.model_copy(update=later)

    b = await disaster.restore()
    await _settle(b)
    assert b.scheduler.cancelled == []
