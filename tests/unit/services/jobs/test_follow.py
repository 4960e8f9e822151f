"""Following a log: everything once, in order, to its end, for any number of followers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from aitne.core.errors import Unavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job
from aitne.services.jobs.log_follower import LogFollower
from tests.unit.services.conftest import Bench

RUNNING = (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING)


async def collect(follower: LogFollower, job: Job, offset: int = 0) -> bytes:
    return b"".join([piece async for piece in follower.follow(job, offset)])


@pytest.fixture
def follower(bench: Bench) -> LogFollower:
    return LogFollower(
        bench.store, bench.files, bench.renderer.get_location, growth_interval_s=0.001
    )


async def test_a_finished_log_is_given_and_ends(bench: Bench, follower: LogFollower) -> None:
    job = await bench.create()
    bench.files.write_log(job, b"one\ntwo\n")
    job = await bench.walk(job, JobState.FAILED)
    assert await collect(follower, job) == b"one\ntwo\n"
    assert await collect(follower, job, 4) == b"two\n"
    assert await collect(follower, job, -4) == b"two\n"


async def test_growth_reaches_every_follower_until_the_end(
    bench: Bench, follower: LogFollower
) -> None:
    job = await bench.walk(await bench.create(), *RUNNING)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        followers = [group.create_task(collect(follower, job)) for _ in range(20)]
        for number in range(5):
            bench.files.write_log(job, f"line {number}\n".encode())
            await asyncio.sleep(0.003)
        bench.files.write_log(job, b"last\n")
        await bench.walk(job, JobState.COMPLETED)
    expected = b"line 0\nline 1\nline 2\nline 3\nline 4\nlast\n"
    assert {task.result() for task in followers} == {expected}


async def test_a_further_attempt_goes_on_with_its_own_log(
    bench: Bench, follower: LogFollower
) -> None:
    job = await bench.walk(await bench.create(retry={"max": 1}), *RUNNING)
    bench.files.write_log(job, b"first attempt\n")
    async with asyncio.timeout(60), aclosing(follower.follow(job, 0)) as pieces:
        assert await anext(pieces) == b"first attempt\n"
        await bench.walk(job, JobState.NODE_FAILED, reason=TerminationReason.NODE_FAILED)
        # Long enough for the watcher to see the end of the first attempt, which is not the job's.
        await asyncio.sleep(0.02)
        again = await bench.store.retry_job(job.id, epoch=bench.epoch)
        bench.files.write_log(again, b"second attempt\n")
        assert await anext(pieces) == b"second attempt\n"
        await bench.walk(job, JobState.CANCELLED)
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


async def test_a_promised_attempt_that_never_comes_is_not_waited_for_long(
    bench: Bench, follower: LogFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aitne.services.jobs.log_follower.RETRY_PATIENCE_S", 0.01)
    job = await bench.walk(await bench.create(retry={"max": 1}), *RUNNING)
    bench.files.write_log(job, b"some\n")
    job = await bench.walk(job, JobState.LOST, reason=TerminationReason.LOST)
    async with asyncio.timeout(60):
        assert await collect(follower, job) == b"some\n"


async def test_a_log_that_cannot_be_read_ends_with_the_reason(
    bench: Bench, follower: LogFollower
) -> None:
    job = await bench.walk(await bench.create(), *RUNNING)
    bench.files.write_log(job, b"some\n")

    async with asyncio.timeout(60), aclosing(follower.follow(job, 0)) as pieces:
        assert await anext(pieces) == b"some\n"
        bench.files.failing = Unavailable("the disk is gone")
        with pytest.raises(Unavailable, match="the disk is gone"):
            await anext(pieces)


async def test_the_watcher_goes_with_its_last_follower(bench: Bench, follower: LogFollower) -> None:
    job = await bench.walk(await bench.create(), *RUNNING)
    bench.files.write_log(job, b"some\n")
    async with aclosing(follower.follow(job, 0)) as pieces:
        await anext(pieces)
    before = bench.files.reads
    await asyncio.sleep(0.02)
    assert bench.files.reads <= before + 1
