"""A real Slurm behind the broker: jobs of alice and bob, submitted by a platform that is neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from aitne.adapters.broker import BrokerFiles, BrokerScheduler
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState
from aitne.core.models.node import NodeState
from aitne.core.platform.dev_cluster import DevCluster
from aitne.core.ports.scheduler import Run, SchedulerJob, SubmitRequest
from tests.support import realtime
from tests.support.broker import BrokerBench

pytestmark = realtime.SLURM

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def bench(slurm_cluster: DevCluster) -> Iterator[BrokerBench]:
    bench = BrokerBench({"anna": "alice", "ben": "bob"}, scheduler="slurm_cli")
    prefix = json.dumps(list(slurm_cluster.command_prefix))
    bench.write_config(
        more=f'conf = "{slurm_cluster.slurm_conf}"\n'
        f'command_prefix = {prefix}\noperator = "{slurm_cluster.operator}"\n'
    )
    bench.start("aitne.broker")
    yield bench
    bench.stop()


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

        record = await seen(scheduler, request, lambda job: job.state.terminal)

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
    (left,) = await scheduler.find([run_of(request, scheduler_id)])
    assert (left.state, left.time_limit_s) == (JobState.RUNNING, 600)

    await scheduler.extend(run_of(request, scheduler_id), 1_200)
    changed = await seen(scheduler, request, lambda job: job.time_limit_s == 1_200)
    assert changed.account == "bob"
    await scheduler.cancel(run_of(request, scheduler_id))
    ended = await seen(scheduler, request, lambda job: job.state.terminal)
    assert ended.state is JobState.CANCELLED


async def test_a_node_is_drained_and_taken_back(
    bench: BrokerBench, slurm_cluster: DevCluster, scheduler: BrokerScheduler
) -> None:
    node = slurm_cluster.nodes[-1]

    async def state() -> tuple[NodeState, str | None]:
        found = await scheduler.cluster()
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
