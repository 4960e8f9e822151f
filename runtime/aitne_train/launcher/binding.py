"""Binding of the ranks of one node to its CPUs, and the order of its GPUs.

Processes that a rank starts, such as those of a data loader, inherit its CPUs.
"""

from __future__ import annotations

import os

from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.visible_gpus import parse_visible_gpus
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import NodeTopology, format_cpu_list, parse_cpu_list
from aitne_train.topology.sysfs import read_sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence
    from typing import Any

AUTO = "auto"
_SYS = "/sys"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class LocalRankBinding:
    """CPUs and devices of one rank.

    Args:
        cpus: numbers of the CPUs to which the rank is bound; empty: the rank is not bound.
        numa: index of the NUMA node of its GPU or, without a GPU, of its CPUs; None: unknown, or
            its CPUs belong to several NUMA nodes.
        gpu: index of its GPU on the node; None: the rank has no GPU of its own, or it is unknown.
        nic: name of the network interface closest to its GPU; None: unknown.
    """

    def __init__(
        self,
        cpus: Sequence[int] = (),
        numa: int | None = None,
        gpu: int | None = None,
        nic: str | None = None,
    ) -> None:
        self.cpus = list(cpus)
        self.numa = numa
        self.gpu = gpu
        self.nic = nic

    def to_json(self, rank: int, node: str) -> dict[str, Any]:
        """Return the binding as a JSON object. ``rank`` is the number of the rank, ``node`` the
        name of its node."""
        return {
            "rank": rank,
            "node": node,
            "cores": format_cpu_list(self.cpus) if self.cpus else None,
            "numa": self.numa,
            "gpu": self.gpu,
            "nic": self.nic,
        }


class NodeBinding:
    """Bindings of the ranks of one node.

    Args:
        ranks: bindings by local rank.
        variables: environment variables for all ranks: ``CUDA_VISIBLE_DEVICES`` with the GPUs in
            the order of the ranks, if this order differs from the given one.
    """

    def __init__(self, ranks: Sequence[LocalRankBinding], variables: Mapping[str, str]) -> None:
        self.ranks = list(ranks)
        self.variables = dict(variables)


def plan_this_node(mode: str, ranks: int, environ: Mapping[str, str]) -> NodeBinding:
    """Plan the bindings of this node's ranks, from its topology in ``/sys``.

    Args:
        mode: ``auto``: each rank is bound to CPUs of the NUMA node of its GPU, if it is known;
            otherwise, and with ``cores``, the CPUs are divided evenly among the ranks.
        ranks: number of ranks on this node.
        environ: environment variables of the ranks.
    """
    cpus = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:  # a sandbox may forbid it
        print_message(f"ranks are not bound: {error.strerror}")
        cpus = []
    try:
        node = read_sysfs(_SYS)
    except TopologyError:
        node = NodeTopology(None, _SYS)  # such as in a container without /sys
    return plan_bindings(mode, sort_by_core(cpus, node, _SYS), ranks, environ, node)


def plan_bindings(
    mode: str, cpus: Sequence[int], ranks: int, environ: Mapping[str, str], node: NodeTopology
) -> NodeBinding:
    """Plan the bindings of the ranks of a node.

    Args:
        mode: as for ``plan_this_node``.
        cpus: CPUs that the ranks may use, in the order of ``sort_by_core``.
        ranks: number of ranks on the node.
        environ: environment variables of the ranks, which select the visible GPUs.
        node: topology of the node.
    """
    devices = _list_devices(environ, node)
    variables: dict[str, str] = {}
    if mode == AUTO and (order := _sort_by_numa(devices, node)) != list(range(len(devices))):
        visible = environ.get(_VISIBLE)
        tokens = list(map(str, devices)) if visible is None else parse_visible_gpus(visible)
        variables[_VISIBLE] = ",".join(tokens[index] for index in order)
        devices = [devices[index] for index in order]
    # Ranks that share GPUs have none of their own.
    gpus: list[int | None] = [*devices[:ranks]] if len(devices) >= ranks else [None] * ranks
    near = _divide_by_numa(cpus, gpus, node) if mode == AUTO else []
    shares = near or divide_cpus(cpus, ranks) or [[] for _ in range(ranks)]
    return NodeBinding(
        [_build_binding(share, gpu, node) for share, gpu in zip(shares, gpus)],  # noqa: B905 (3.9)
        variables,
    )


def divide_cpus(cpus: Sequence[int], ranks: int) -> list[list[int]]:
    """Divide ``cpus`` into one group of consecutive CPUs for each of ``ranks`` ranks. The sizes of
    the groups differ by at most one. Return an empty list if there are fewer CPUs than ranks."""
    if len(cpus) < ranks:
        return []
    edges = [len(cpus) * rank // ranks for rank in range(ranks + 1)]
    return [list(cpus[edges[rank] : edges[rank + 1]]) for rank in range(ranks)]


def sort_by_core(cpus: Sequence[int], node: NodeTopology, root: str) -> list[int]:
    """Sort CPUs by NUMA node, core and number, so that the CPUs (hardware threads) of a core are
    adjacent.

    Args:
        cpus: numbers of the CPUs.
        node: topology of the node.
        root: ``/sys``, or a copy of it, from which the cores are read.
    """
    numa_of = {cpu: numa.index for numa in node.numa_nodes for cpu in numa.cpus}
    return sorted(cpus, key=lambda cpu: (numa_of.get(cpu, 0), _find_first_sibling(cpu, root), cpu))


def _find_first_sibling(cpu: int, root: str) -> int:
    path = f"{root}/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        with open(path, encoding="ascii") as stream:
            return min(parse_cpu_list(stream.read(4_096)), default=cpu)
    except (OSError, ValueError):
        return cpu


def _list_devices(environ: Mapping[str, str], node: NodeTopology) -> list[int]:
    """Return the indices on the node of the GPUs that are visible to the ranks, in the order of
    ``CUDA_VISIBLE_DEVICES``; empty if they are unknown."""
    visible = environ.get(_VISIBLE)
    if visible is None:
        return list(range(len(node.gpus)))
    tokens = parse_visible_gpus(visible)
    # Within a cgroup, the variable counts only the GPUs of the job, and Slurm names them. The
    # variable of the job is about its first node.
    alone = environ.get("AITNE_NODES", "1") == "1"
    allotted = environ.get("SLURM_STEP_GPUS") or (environ.get("SLURM_JOB_GPUS") if alone else None)
    try:
        devices = [int(token) for token in tokens if token.isascii()]
        named = list(parse_cpu_list(allotted)) if allotted else devices
    except ValueError:  # UUIDs, or parts of a GPU
        return []
    devices = named if len(named) == len(tokens) else devices
    known = len(devices) == len(set(devices)) == len(tokens)
    return devices if known and all(0 <= each < len(node.gpus) for each in devices) else []


def _sort_by_numa(devices: Sequence[int], node: NodeTopology) -> list[int]:
    """Return the positions in ``devices``, sorted so that the GPUs of a NUMA node are adjacent.

    NUMA nodes are in the order of their first GPU, and the GPUs of a NUMA node keep the given
    order. If the NUMA node of a GPU is unknown, the given order is returned.
    """
    numas = [node.gpus[index].numa for index in devices]
    if None in numas:
        return list(range(len(devices)))
    return sorted(
        range(len(devices)), key=lambda position: (numas.index(numas[position]), position)
    )


def _divide_by_numa(
    cpus: Sequence[int], gpus: Sequence[int | None], node: NodeTopology
) -> list[list[int]]:
    """Divide the CPUs of each NUMA node among the ranks whose GPUs are on it. Return the CPUs of
    each rank, or an empty list if a NUMA node is unknown or has fewer CPUs than ranks.

    Args:
        cpus: CPUs that the ranks may use.
        gpus: index of the GPU of each rank; None: it has none.
        node: topology of the node.
    """
    numas = [None if gpu is None else node.gpus[gpu].numa for gpu in gpus]
    if None in numas:
        return []
    shares: dict[int, list[int]] = {}
    for numa in set(numas):
        ranks = [rank for rank, own in enumerate(numas) if own == numa]
        there = {cpu for each in node.numa_nodes if each.index == numa for cpu in each.cpus}
        parts = divide_cpus([cpu for cpu in cpus if cpu in there], len(ranks))
        shares.update(zip(ranks, parts))  # noqa: B905 (3.9)
    return [shares[rank] for rank in range(len(gpus))] if len(shares) == len(gpus) else []


def _build_binding(cpus: Sequence[int], gpu: int | None, node: NodeTopology) -> LocalRankBinding:
    if gpu is not None:
        nic = node.find_nearest_nic(gpu)
        return LocalRankBinding(cpus, node.gpus[gpu].numa, gpu, None if nic is None else nic.name)
    numas = {each.index for each in node.numa_nodes if set(each.cpus) & set(cpus)}
    return LocalRankBinding(cpus, numas.pop() if len(numas) == 1 else None)
