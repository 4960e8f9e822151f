"""Samples of the cluster's load, and their means over a day and a week."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aitne.core.models.cluster_load import LoadPeriod
from aitne.core.models.node import Cluster, GpuCount, Node, NodeState
from aitne.core.settings import Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.controller.load import LoadSampler
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
        seen_at=b.clock.now,
    )


async def see(b: Bench, cpu_used: int) -> None:
    nodes = (node(b, "n1", NodeState.MIXED, cpu_used), node(b, "n2", NodeState.DOWN, 0))
    cluster = Cluster(nodes=nodes, seen_at=b.clock.now)
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
    history = await service.load(LoadPeriod.DAY)
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
    assert len((await service.load(LoadPeriod.DAY)).items) == 1


async def test_load_of_a_week_is_weighted_by_its_samples(bench: Any) -> None:
    b: Bench = await bench()
    b.clock.now = b.clock.now.replace(minute=0)
    sampler = LoadSampler(b.store, b.leader, b.clock)
    for cpu_used, minutes in ((2, 20), (2, 1), (8, 1)):
        await see(b, cpu_used)
        await sampler.sample()
        b.clock.advance(60 * minutes)
    service = ClusterService(b.store, None, Settings(), b.clock)
    week = await service.load(LoadPeriod.WEEK)
    assert [item.cpu_used for item in week.items] == [4]
    b.clock.now += timedelta(days=8)
    late = ClusterService(b.store, None, Settings(), b.clock)
    assert (await late.load(LoadPeriod.WEEK)).items == ()
