"""Samples of the cluster's load: what is allocated on the nodes, and how many jobs wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.models.cluster_load import ClusterLoad
from aitne.core.models.node import Cluster
from aitne.core.ports.store import Store
from aitne.services.controller.leader import Leader

SAMPLE_EVERY_S = 60.0
OUTDATED = timedelta(minutes=2)
"""Age above which the stored state of the cluster is not used as a sample of its load."""


class LoadSampler:
    """Task that stores a sample of the cluster's load every minute."""

    def __init__(self, store: Store, leader: Leader, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._leader = leader
        self._clock = clock

    async def watch(self) -> None:
        """Store a sample every minute until cancelled. Raises ``StaleEpoch`` if another controller
        is the leader.
        """
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def sample(self) -> None:
        """Store a sample; do nothing if the scheduler has not answered for some time."""
        now, cluster = self._clock(), await self._store.cluster()
        if cluster.seen_at is None or now - cluster.seen_at > OUTDATED:
            return
        waiting = await self._store.count_waiting()
        await self._store.add_load(_load(cluster, waiting, now), epoch=self._leader.epoch)


def _load(cluster: Cluster, waiting_jobs: int, now: datetime) -> ClusterLoad:
    nodes = [node for node in cluster.nodes if node.state.usable]
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
