"""Nodes as the scheduler sees them."""

from __future__ import annotations

from enum import StrEnum

from aitne.core.models.base import Frozen, UtcTime


class NodeState(StrEnum):
    """What a node can do for a new job."""

    IDLE = "idle"
    MIXED = "mixed"
    """Partly in use."""
    ALLOCATED = "allocated"
    DRAINED = "drained"
    """Takes no new work, by an administrator's word."""
    DOWN = "down"
    UNKNOWN = "unknown"


class GpuCount(Frozen):
    """GPUs of one type on one node."""

    type: str | None
    total: int
    used: int


class Node(Frozen):
    """One node: what it has, and how much of that is given to jobs."""

    name: str
    cluster: str = "local"
    state: NodeState
    reason: str | None = None
    cpu_total: int
    cpu_used: int
    memory_total_bytes: int
    memory_used_bytes: int
    """Allocated, not measured."""
    gpus: tuple[GpuCount, ...] = ()
    seen_at: UtcTime
