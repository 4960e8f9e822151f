"""A real Slurm behind the broker: jobs of alice and bob, submitted by a platform that is neither."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from aitne.adapters.broker_outside_jobs import BrokerOutside
from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from aitne.core.errors import NotAllowed, SchedulerRejected
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import NodeState
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJob, OutsideLog, OutsideRun
from aitne.core.ports.scheduler import Run, SchedulerJob, SubmitRequest
from tests.support import realtime
from tests.support.broker import BrokerBench, broker_on
from tests.support.slurm import run_as, sbatch

pytestmark = realtime.SLURM

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def bench(slurm_cluster: DevCluster) -> Iterator[BrokerBench]:
    with broker_on(slurm_cluster) as bench:
        yield bench


@pytest.fixture
async def scheduler(bench: BrokerBench) -> AsyncIterator[BrokerScheduler]:
    found = bench.scheduler()
    await found.start()
    yield found
    await found.close()


@pytest.fixture
async def files(bench: BrokerBench) -> AsyncIterator[BrokerFiles]:
    found = bench.files()
    yield found
    await found.close()


def job_of(bench: BrokerBench, cluster: DevCluster, user: str, script: str) -> SubmitRequest:
    name = bench.users[user]
    project = next(each.account for each in cluster.users if each.name == name)
    request = bench.request(user, project=project, script=f"#!/bin/bash\n{script}\n")
    small = request.resources.model_copy(update={"memory_bytes": 64 << 20})
    return request.model_copy(update={"resources": small})


def run_of(request: SubmitRequest, scheduler_id: str, account: str | None = None) -> Run:
    return Run(
        job_id=request.job_id,
        attempt=1,
        account=account or request.account,
        scheduler_id=scheduler_id,
    )


async def seen(
    scheduler: BrokerScheduler, request: SubmitRequest, good: Callable[[SchedulerJob], bool]
) -> SchedulerJob:
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while True:
        found = [job for job in await scheduler.poll() if job.job_id == request.job_id]
        if found and good(found[0]):
            return found[0]
        assert loop.time() < until, found
        await asyncio.sleep(0.2)


async def test_a_job_runs_as_its_user_and_its_log_is_read_as_that_user(
    bench: BrokerBench, slurm_cluster: DevCluster, scheduler: BrokerScheduler, files: BrokerFiles
) -> None:
    for user, name in bench.users.items():
        request = job_of(bench, slurm_cluster, user, "id -un; stat -c %U:%a .; umask")
        await scheduler.submit(request)

        record = await seen(scheduler, request, lambda job: job.state.is_terminal)

        assert (record.state, record.account) == (JobState.COMPLETED, name)
        log = Path(request.job_dir, "output.log")
        assert log.owner() == name
        chunk = await files.read_log(bench.place(user, request.job_id), None, offset=0, limit=1_000)
        assert chunk.data.decode().split()[0] == name


async def test_job_of_other_account_cannot_be_cancelled_or_extended(
    bench: BrokerBench, slurm_cluster: DevCluster, scheduler: BrokerScheduler
) -> None:
    request = job_of(bench, slurm_cluster, "ben", "sleep 300")
    scheduler_id = await scheduler.submit(request)
    await seen(scheduler, request, lambda job: job.state is JobState.RUNNING)

    not_hers = run_of(request, scheduler_id, account="alice")
    await scheduler.cancel(not_hers)  # alice has no such job, so there is nothing to end
    with pytest.raises(SchedulerRejected):
        await scheduler.extend(not_hers, 1_200)
    await asyncio.sleep(1)
    (left,) = await scheduler.find_records([run_of(request, scheduler_id)])
    assert (left.state, left.time_limit_s) == (JobState.RUNNING, 600)

    await scheduler.extend(run_of(request, scheduler_id), 1_200)
    changed = await seen(scheduler, request, lambda job: job.time_limit_s == 1_200)
    assert changed.account == "bob"
    await scheduler.cancel(run_of(request, scheduler_id))
    ended = await seen(scheduler, request, lambda job: job.state.is_terminal)
    assert ended.state is JobState.CANCELLED


async def test_jobs_submitted_by_sbatch_are_seen_read_and_cancelled_as_their_owner(
    bench: BrokerBench, slurm_cluster: DevCluster
) -> None:
    outside = BrokerOutside(bench.settings())
    script = "#!/bin/bash\numask 077; id -un; sleep 300\n"
    numbers = {
        user: sbatch(slurm_cluster, user, script, "--mem=64M", f"--output={user}-%j.log")
        for user in ("alice", "bob")
    }
    array = sbatch(slurm_cluster, "alice", script, "--mem=64M", "--array=0-99%1")

    async def job(number: str, state: JobState) -> OutsideJob:
        return await listed(
            outside, lambda record: (record.scheduler_id, record.state) == (number, state)
        )

    try:
        mine = await job(numbers["alice"], JobState.RUNNING)
        tasks = await job(array, JobState.RUNNING)
        assert tasks.tasks == {JobState.QUEUED: 99, JobState.RUNNING: 1}
        assert (tasks.array, tasks.log and tasks.log.path) == (
            *("0-99", f"/home/alice/slurm-{array}_%a.out"),
        )
        assert mine.log is not None
        assert mine.log.path == f"/home/alice/alice-{numbers['alice']}.log"
        assert await log_text(outside, mine.log) == "alice\n"
        assert await log_text(outside, task_log(tasks, 0)) == "alice\n"

        # Neither another file, nor another user's, nor another account's rights.
        theirs = await job(numbers["bob"], JobState.RUNNING)
        assert theirs.log is not None
        for change in ({"path": "/etc/hostname"}, {"path": theirs.log.path}, {"account": "bob"}):
            forged = mine.log.model_copy(update=change)
            with pytest.raises(NotAllowed):
                await outside.read_log(forged, offset=0, limit=99)

        # Slurm's record of the job must name the account.
        forged_run = theirs.model_copy(update={"account": "alice"})
        await outside.perform_action(run_outside(forged_run), OutsideAction.CANCEL)
        await outside.perform_action(run_outside(mine), OutsideAction.CANCEL)
        await outside.perform_action(run_outside(tasks), OutsideAction.CANCEL)
        ended = await job(numbers["alice"], JobState.CANCELLED)
        assert (await job(array, JobState.CANCELLED)).ended_at is not None
        assert (await job(numbers["bob"], JobState.RUNNING)).account == "bob"
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await outside.find_ended_jobs([run_outside(ended)])):
                await asyncio.sleep(0.5)
        assert (found[0].state, found[0].account) == (JobState.CANCELLED, "alice")
    finally:
        run_as(slurm_cluster, "bob", "scancel", numbers["bob"])
        await outside.close()


async def test_jobs_of_salloc_and_srun_and_logs_with_patterns_are_those_of_their_owner(
    bench: BrokerBench, slurm_cluster: DevCluster
) -> None:
    """Two tasks one after the other, whose logs only their own records name; a held job."""
    outside = BrokerOutside(bench.settings())
    run_as(slurm_cluster, "alice", "salloc", "--no-shell", "--mem=64M", "--job-name=shell")
    step = "srun --mem=64M --job-name=step sleep 300 </dev/null >/dev/null 2>&1 &"
    run_as(slurm_cluster, "alice", "sh", "-c", step)
    path = "/home/alice/%x-%A-%4a-%j-%J-%n-%s-%u-100%%.log"
    output = ("--mem=64M", "--job-name=o%d", f"--output={path}")
    sbatch(slurm_cluster, "alice", "#!/bin/bash\nid -un\n", *output, "--array=3-4%1", "--hold")

    async def job(name: str, state: JobState) -> OutsideJob:
        return await listed(outside, lambda record: (record.name, record.state) == (name, state))

    try:
        for name in ("shell", "step"):
            record = await job(name, JobState.RUNNING)
            assert (record.account, record.array, record.log) == ("alice", None, None)
            assert record.nodes
            await outside.perform_action(run_outside(record), OutsideAction.CANCEL)
            await job(name, JobState.CANCELLED)

        held = await job("o%d", JobState.QUEUED)
        assert "held" in (held.pending_reason or "").lower()
        await outside.perform_action(
            run_outside(held.model_copy(update={"account": "bob"})), OutsideAction.RELEASE
        )
        await outside.perform_action(run_outside(held), OutsideAction.RELEASE)
        done = await job("o%d", JobState.COMPLETED)
        for task in (3, 4):
            assert await log_text(outside, task_log(done, task)) == "alice\n"

        waiting = sbatch(
            slurm_cluster, "alice", "#!/bin/bash\n", "--mem=64M", "--begin=now+1hour", "-Jlater"
        )
        later = await job("later", JobState.QUEUED)
        await outside.perform_action(run_outside(later), OutsideAction.HOLD)
        reason = run_as(slurm_cluster, "alice", "squeue", "-h", "-j", waiting, "-o", "%r %Q")
        assert reason.split() == ["JobHeldUser", "0"]
    finally:
        run_as(slurm_cluster, "alice", "scancel", "--user=alice")
        await outside.close()


async def listed(outside: BrokerOutside, good: Callable[[OutsideJob], bool]) -> OutsideJob:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for record in await outside.list_jobs({"alice", "bob"}):
                if good(record):
                    return record
            await asyncio.sleep(0.2)


async def log_text(outside: BrokerOutside, log: OutsideLog) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while not (chunk := await outside.read_log(log, offset=0, limit=99)).data:
            await asyncio.sleep(0.1)
    return chunk.data.decode()


def task_log(job: OutsideJob, task: int) -> OutsideLog:
    assert job.log is not None
    return job.log.model_copy(update={"task": task})


def run_outside(job: OutsideJob) -> OutsideRun:
    return OutsideRun(
        scheduler_id=job.scheduler_id, account=job.account, submitted_at=job.submitted_at
    )


async def test_a_node_is_drained_and_taken_back(
    bench: BrokerBench, slurm_cluster: DevCluster, scheduler: BrokerScheduler
) -> None:
    node = slurm_cluster.nodes[-1]

    async def state() -> tuple[NodeState, str | None]:
        found = await scheduler.read_cluster()
        return next((each.state, each.reason) for each in found.nodes if each.name == node)

    await scheduler.drain(node, "a fan is loud")
    await asyncio.sleep(0.6)
    drained, reason = await state()
    assert drained in (NodeState.DRAINED, NodeState.DRAINING)
    assert "a fan is loud" in str(reason)
    await scheduler.resume(node)
    await asyncio.sleep(0.6)
    assert (await state())[0] not in (NodeState.DRAINED, NodeState.DRAINING)
    with pytest.raises(SchedulerRejected):
        await scheduler.drain("no-such-node", "x")
    assert bench.audited(verb="drain", outcome="done")


async def test_an_unknown_partition_is_refused_as_slurm_says(
    bench: BrokerBench, slurm_cluster: DevCluster, scheduler: BrokerScheduler
) -> None:
    request = job_of(bench, slurm_cluster, "anna", "true")
    wrong = request.model_copy(
        update={"slurm": request.slurm.model_copy(update={"partition": "no-such-partition"})}
    )
    with pytest.raises(SchedulerRejected) as refused:
        await scheduler.submit(wrong)
    assert refused.value.field == "slurm.partition"
