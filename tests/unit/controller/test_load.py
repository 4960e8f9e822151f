"""Samples of the load of the cluster and its partitions, their means over a period, and the queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aitne.core.errors import NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState, Partition
from aitne.core.models.cluster_load_history import LoadPeriod
from aitne.core.settings import Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.controller.load_sampler import LoadSampler
from tests.support.jobs import make_job
from tests.unit.controller.conftest import Bench


def node(b: Bench, name: str, state: NodeState, cpu_used: int) -> Node:
    return Node(
        name=name,
        state=state,
        cpu_total=8,
        cpu_used=cpu_used,
        memory_total_bytes=32 << 30,
        memory_used_bytes=8 << 30,
        gpus=(GpuCount(type="a100", total=4, used=1),),
        partitions=("all", "gpu") if name == "n1" else ("all",),
        seen_at=b.clock.now,
    )


async def see(b: Bench, cpu_used: int) -> None:
    nodes = (node(b, "n1", NodeState.MIXED, cpu_used), node(b, "n2", NodeState.DOWN, 0))
    partitions = (Partition(name="all"), Partition(name="gpu"), Partition(name="empty"))
    cluster = Cluster(nodes=nodes, partitions=partitions, seen_at=b.clock.now)
    await b.store.save_cluster(cluster, epoch=b.leader.epoch)


async def test_load_is_sampled_and_averaged_without_closed_nodes(bench: Any) -> None:
    b: Bench = await bench()
    sampler = LoadSampler(b.store, b.leader, b.clock)
    service = ClusterService(b.store, None, Settings(), b.clock, fresh_s=0)
    await b.store.create_job(make_job())
    for cpu_used in (2, 6):
        await see(b, cpu_used)
        await sampler.sample()
        b.clock.advance(60)
    history = await service.get_load(LoadPeriod.DAY)
    assert history.interval_s == 600
    (mean,) = history.items
    assert (mean.cpu_total, mean.cpu_used, mean.gpu_total, mean.gpu_used) == (8, 4, 4, 1)
    assert (mean.memory_total_bytes, mean.memory_used_bytes) == (32 << 30, 8 << 30)
    assert mean.waiting_jobs == 1


async def test_load_of_a_scheduler_that_does_not_answer_is_a_gap(bench: Any) -> None:
    b: Bench = await bench()
    sampler = LoadSampler(b.store, b.leader, b.clock)
    await sampler.sample()
    await see(b, 2)
    await sampler.sample()
    b.clock.advance(1_800)
    await sampler.sample()
    service = ClusterService(b.store, None, Settings(), b.clock)
    assert len((await service.get_load(LoadPeriod.DAY)).items) == 1


async def test_load_of_a_week_is_weighted_by_its_samples(bench: Any) -> None:
    b: Bench = await bench()
    b.clock.now = b.clock.now.replace(minute=0)
    sampler = LoadSampler(b.store, b.leader, b.clock)
    for cpu_used, minutes in ((2, 20), (2, 1), (8, 1)):
        await see(b, cpu_used)
        await sampler.sample()
        b.clock.advance(60 * minutes)
    service = ClusterService(b.store, None, Settings(), b.clock)
    week = await service.get_load(LoadPeriod.WEEK)
    assert [item.cpu_used for item in week.items] == [4]
    b.clock.now += timedelta(days=8)
    late = ClusterService(b.store, None, Settings(), b.clock)
    assert (await late.get_load(LoadPeriod.WEEK)).items == ()


async def test_load_of_a_partition_has_its_nodes_and_its_pending_jobs(bench: Any) -> None:
    b: Bench = await bench()
    service = ClusterService(b.store, None, Settings(), b.clock, fresh_s=0)
    nodes = (node(b, "n1", NodeState.MIXED, 2), node(b, "n2", NodeState.MIXED, 6))
    partitions = (Partition(name="all"), Partition(name="gpu"), Partition(name="empty"))
    cluster = Cluster(nodes=nodes, partitions=partitions, seen_at=b.clock.now)
    await b.store.save_cluster(cluster, epoch=b.leader.epoch)
    for partition in ("gpu", "gpu,all", None):
        await b.store.create_job(make_job(state=JobState.QUEUED, partition=partition))
    await LoadSampler(b.store, b.leader, b.clock).sample()
    shown = {}
    for name in (None, "all", "gpu", "empty"):
        (mean,) = (await service.get_load(LoadPeriod.MONTH, name)).items
        shown[name] = (mean.cpu_total, mean.cpu_used, mean.waiting_jobs)
    assert shown == {None: (16, 8, 3), "all": (16, 8, 1), "gpu": (8, 2, 2), "empty": (0, 0, 0)}
    with pytest.raises(NotFound):
        await service.get_load(LoadPeriod.DAY, "elsewhere")


async def test_queues_have_what_waits_and_how_long_jobs_waited(bench: Any) -> None:
    b: Bench = await bench()
    now = b.clock.now
    service = ClusterService(b.store, None, Settings(), b.clock)
    minutes = timedelta(minutes=1)
    waiting = {"state": JobState.QUEUED, "created_at": now - 30 * minutes}
    started = {"state": JobState.RUNNING, "created_at": now - 20 * minutes, "allocated_at": now}
    for fields in (
        {**waiting, "partition": "gpu,all"},
        {**started, "partition": "gpu"},
        {**waiting, "partition": None},
    ):
        await b.store.create_job(make_job(**fields))
    report = await service.queues(LoadPeriod.DAY)
    assert [queue.partition for queue in report.items] == ["all", "gpu", None]
    on_all, gpu, unassigned = report.items
    assert (on_all.waiting_jobs, on_all.started_jobs, on_all.mean_wait_s) == (1, 0, None)
    assert (gpu.waiting_jobs, gpu.running_jobs, gpu.oldest_wait_s) == (1, 1, 1_800)
    assert (gpu.mean_wait_s, gpu.longest_wait_s) == (1_200, 1_200)
    assert [count.jobs for count in gpu.waits] == [0, 0, 1, 0, 0]
    assert unassigned.waiting_jobs == 1
