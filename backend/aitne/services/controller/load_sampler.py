"""Samples of the load of the cluster and its partitions: what is allocated on the nodes, and how many jobs
are pending.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from aitne.core.models.cluster import Node
from aitne.core.models.cluster_load_history import ClusterLoad
from aitne.services.controller.leader import Leader
from aitne.store import Store

SAMPLE_EVERY_S = 60.0
OUTDATED = timedelta(minutes=2)
"""Age above which the stored state of the cluster is not used as a sample of its load."""


class LoadSampler:
    """Task that stores a sample of the load of the cluster and its partitions every minute."""

    def __init__(self, store: Store, leader: Leader, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._leader = leader
        self._clock = clock

    async def run(self) -> None:
        """Store a sample every minute until cancelled. Raises ``StaleEpoch`` if another controller
        is the leader.
        """
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def sample(self) -> None:
        """Store a sample; do nothing if the scheduler has not answered for some time."""
        now, cluster = self._clock(), await self._store.get_cluster()
        if cluster.seen_at is None or now - cluster.seen_at > OUTDATED:
            return
        total, by_partition = 0, Counter[str]()
        for queued in await self._store.count_queued_jobs():
            total += queued.waiting
            for partition in (queued.partition or "").split(","):
                by_partition[partition] += queued.waiting
        partitions = {
            part.name: _make_load_sample(
                (node for node in cluster.nodes if part.name in node.partitions),
                by_partition[part.name],
                now,
            )
            for part in cluster.partitions
        }
        load = _make_load_sample(cluster.nodes, total, now)
        await self._store.add_load_sample(load, partitions, epoch=self._leader.epoch)


def _make_load_sample(of_nodes: Iterable[Node], waiting_jobs: int, now: datetime) -> ClusterLoad:
    nodes = [node for node in of_nodes if node.state.is_usable]
    gpus = [gpu for node in nodes for gpu in node.gpus]
    return ClusterLoad(
        time=now,
        cpu_total=sum(node.cpu_total for node in nodes),
        cpu_used=sum(node.cpu_used for node in nodes),
        memory_total_bytes=sum(node.memory_total_bytes for node in nodes),
        memory_used_bytes=sum(node.memory_used_bytes for node in nodes),
        gpu_total=sum(gpu.total for gpu in gpus),
        gpu_used=sum(gpu.used for gpu in gpus),
        waiting_jobs=waiting_jobs,
    )
