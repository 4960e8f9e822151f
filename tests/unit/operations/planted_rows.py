"""Rows that planted faults leave in the database of a platform."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.core.settings import Settings
from aitne.store import Store
from aitne_train.topology.switch_tree import SourceLine, Switch
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart


async def add_user(data_dir: Path, name: str = "zoe-without") -> None:
    """Add a user, by default one without a Unix account."""
    store = Store(Settings(data_dir=data_dir).database_url)
    await store.start()
    now = datetime.now(UTC)
    user = User(name=name, default_project=name, created_at=now)
    await store.create_user(user, None, Project(name=name, created_at=now))
    await store.close()


async def save_topology(data_dir: Path) -> None:
    """Store a topology that lacks the node gpu02."""
    store = Store(Settings(data_dir=data_dir).database_url)
    await store.start()
    lease = await store.acquire_lease("controller", "planted", duration_s=60)
    assert lease is not None
    now = datetime.now(UTC)
    nodes = tuple(
        Node(
            name=name,
            state=NodeState.IDLE,
            cpu_total=1,
            cpu_used=0,
            memory_total_bytes=1,
            memory_used_bytes=0,
            seen_at=now,
        )
        for name in ("gpu01", "gpu02")
    )
    await store.save_cluster(Cluster(nodes=nodes, seen_at=now), epoch=lease.epoch)
    part = TopologyPart((Switch("leaf0", SourceLine("topology.conf", 1), nodes=("gpu01",)),))
    await store.save_topology(TopologyOrigin.IMPORT, "topology.conf", part_to_record(part))
    await store.close()
