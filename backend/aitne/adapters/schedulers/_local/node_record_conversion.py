"""Conversion of nodes to records of the scheduler port, and messages about jobs that no node can
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aitne.adapters.schedulers._local.job_index import LocalJob
from aitne.adapters.schedulers._local.job_records import LocalJobRecord
from aitne.adapters.schedulers._local.node_resources import (
    FreeResources,
    NodeCapacity,
    describe_demand,
)
from aitne.core.byte_size_format import describe_bytes
from aitne.core.models.cluster import GpuCount, Node, NodeState
from aitne.core.ports.scheduler import SubmitRequest


def node_record(node: NodeCapacity, free: FreeResources, cluster: str, now: datetime) -> Node:
    """Return the node as a record of the scheduler port, with the resources that are allocated on
    it.
    """
    free_gpus = free.gpus[node.name]
    kinds = dict.fromkeys(gpu.type for gpu in node.gpus)
    gpus = tuple(
        GpuCount(
            type=kind,
            total=sum(gpu.type == kind for gpu in node.gpus),
            used=sum(gpu.type == kind for gpu in node.gpus)
            - sum(gpu.type == kind for gpu in free_gpus),
        )
        for kind in kinds
    )
    cpus = node.cpus - free.cpus[node.name]
    idle = cpus == 0 and all(count.used == 0 for count in gpus)
    full = cpus >= node.cpus or free.memory[node.name] <= 0
    return Node(
        name=node.name,
        cluster=cluster,
        state=NodeState.IDLE if idle else NodeState.ALLOCATED if full else NodeState.MIXED,
        cpu_total=node.cpus,
        cpu_used=cpus,
        memory_total_bytes=node.memory_bytes,
        memory_used_bytes=node.memory_bytes - free.memory[node.name],
        gpus=gpus,
        features=node.features,
        seen_at=now,
    )


def explain_never_fits(nodes: Sequence[NodeCapacity], request: SubmitRequest) -> str:
    """Return a sentence that names the request's field that no node can satisfy, with the largest
    possible value.
    """
    wants = request.resources
    kind = wants.gpu.type
    most_gpus = max(sum(kind is None or gpu.type == kind for gpu in node.gpus) for node in nodes)
    most_memory = max(node.memory_bytes for node in nodes)
    for field, amount, limit in (
        ("resources.nodes", wants.nodes, len(nodes)),
        ("resources.cpu", wants.cpu, max(node.cpus for node in nodes)),
        ("resources.gpu", wants.gpu.count, most_gpus),
    ):
        if amount > limit:
            of_kind = f" of type {kind}" if field == "resources.gpu" and kind else ""
            subject = "the cluster has" if field == "resources.nodes" else "the largest node has"
            return f"{field}: {amount}{of_kind} is too much; {subject} {limit}."
    if wants.memory_bytes > most_memory:
        return (
            f"resources.memory: {describe_bytes(wants.memory_bytes, 'up')} is too much; the "
            f"largest node has {describe_bytes(most_memory, 'down')}."
        )
    unknown = [name for name in request.nodes if name not in {node.name for node in nodes}]
    if unknown:
        return f"placement.nodes: there is no node {unknown[0]}."
    if len(request.nodes) > wants.nodes:
        return (
            f"placement.nodes: {len(request.nodes)} nodes are too many; the job has {wants.nodes}."
        )
    demand = LocalJob(
        LocalJobRecord(number=0, submitted_at=datetime.now(UTC), request=request)
    ).demand
    return f"resources: the cluster does not have {wants.nodes} nodes with {describe_demand(demand)} each."
