"""Topology of the cluster: as it is stored, one row for each source, and as users see it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.cluster import NodeState


class TopologyOrigin(StrEnum):
    """Origin of a part of the topology."""

    IMPORT = "import"
    """A file that an administrator has imported."""
    FILE = "file"
    """The file that the settings name."""
    SCHEDULER = "scheduler"
    NODES = "nodes"
    """The agents of jobs, each about the node that it runs on."""


class StoredTopology(Frozen):
    """Row of the store with the part of the topology that one source describes."""

    origin: TopologyOrigin
    name: str
    """Name within the origin: of the imported file, the path of the file in the settings, or a node;
    empty for the scheduler.
    """
    content: Mapping[str, Any] | None
    """Part of the topology as ``aitne_train.topology.topology_json`` writes it; None: the source has none, or it
    was removed.
    """
    problem: str | None = None
    """Why the source could not be read last time; ``content`` is then what was read before."""
    read_at: UtcTime
    """Time at which the source was read, successfully or not."""
    version: int
    """Number of the change; a later change of any row has a higher number."""


class TopologySwitch(Frozen):
    """A switch, or a block of nodes, of the cluster's network."""

    name: str = Field(description="Name of the switch or block.")
    parent: str | None = Field(description="Switch above it; null for the root.")
    kind: str = Field(description="`switch`, or `block` where the scheduler places jobs by blocks.")
    source: str = Field(description="File or command, and line, that declares it.")


class NumaView(Frozen):
    """A NUMA node of a node of the cluster."""

    index: int = Field(description="Number of the NUMA node.")
    cpus: str = Field(
        description="Its CPUs, such as `0-15,64-79`; if only a gres.conf describes the node, its "
        "cores as Slurm numbers them."
    )
    gpus: tuple[int, ...] = Field(description="Indices of the GPUs that are attached to it.")


class NicView(Frozen):
    """A network interface of a node."""

    name: str = Field(description="Name of the interface, such as `mlx5_0`.")
    numa: int | None = Field(description="Number of its NUMA node; null: unknown.")


class TopologyNode(Frozen):
    """A node with its place in the network, its use, and what it consists of."""

    name: str = Field(description="Name of the node.")
    switch: str | None = Field(
        description="Leaf switch or block that the node is connected to; null: unknown."
    )
    source: str | None = Field(
        description="File or command, and line, that connects the node to it; null: unknown."
    )
    state: NodeState = Field(description="State with regard to new jobs.")
    gpus: int = Field(description="Number of GPUs.")
    free_gpus: int = Field(description="Number of GPUs that could be allocated to a job now.")
    mine: bool = Field(description="Whether a job of the caller runs on it.")
    used: bool = Field(description="Whether resources of it are allocated to any job.")
    numa_nodes: tuple[NumaView, ...] | None = Field(
        description="NUMA nodes; null: no source describes the node."
    )
    gpu_links: tuple[tuple[str | None, ...], ...] | None = Field(
        description="Kind of the link between each pair of GPUs, such as `NV12` or `PIX`, in the order "
        "of the GPUs; null: no source describes the node."
    )
    nics: tuple[NicView, ...] | None = Field(
        description="Network interfaces; null: no source describes the node."
    )


class TopologySourceView(Frozen):
    """A source of the topology, with the result of its last reading."""

    name: str = Field(description="File or command.")
    origin: TopologyOrigin = Field(
        description="`import`: imported by an administrator; `file`: named in the settings; "
        "`scheduler`: the scheduler itself; `nodes`: jobs on the node of that name."
    )
    read_at: UtcTime = Field(description="Time of the last reading.")
    problem: str | None = Field(
        description="Why the source is not used, or not as it is now; null if it is used."
    )


class ClusterTopology(Frozen):
    """Switches and nodes of the cluster, and the sources that describe them."""

    switches: tuple[TopologySwitch, ...] = Field(
        description="Switches or blocks; empty: no source describes the network."
    )
    nodes: tuple[TopologyNode, ...] = Field(description="All nodes of the scheduler, by name.")
    sources: tuple[TopologySourceView, ...] = Field(
        description="Sources of the topology, in the order in which they are used; of nodes that jobs "
        "have described, those with a problem."
    )
    unknown_nodes: tuple[str, ...] = Field(
        description="Nodes of the scheduler that the network's topology lacks."
    )
