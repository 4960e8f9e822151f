"""Topology of one node: NUMA nodes with their CPUs, GPUs, network interfaces, and the links between
the devices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from aitne_train.topology.errors import TopologyError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

MAX_CPUS = 65_536
"""Maximum number of a CPU."""
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_NVLINK = re.compile(r"NV([1-9]\d{0,2})", re.ASCII)
_PCIE = {"PIX": 24, "PXB": 20, "PHB": 16, "NODE": 12, "SYS": 8}
"""Relative weights of links over PCIe, by the names of ``nvidia-smi topo -m``, the closest first."""
_PER_NVLINK = 25


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node and its CPUs."""

    index: int
    """Number of the NUMA node."""
    cpus: tuple[int, ...]
    """Numbers of its CPUs in the kernel's numbering."""


@dataclass(frozen=True)
class Device:
    """A GPU or a network interface."""

    name: str
    """Name of the device: ``GPU0`` or ``mlx5_0``."""
    pci: str | None = None
    """PCI address such as ``0000:3b:00.0``; None: unknown."""
    numa: int | None = None
    """Index of its NUMA node; None: unknown."""


@dataclass(frozen=True)
class NodeTopology:
    """Topology of one node, as far as the sources describe it."""

    name: str | None
    """Name of the node; None: the source does not contain it."""
    source: str
    """File or command that describes the node."""
    numa_nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[Device, ...] = ()
    """GPUs in the order of their indices."""
    nics: tuple[Device, ...] = ()
    """Network interfaces."""
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Kind of the link of two devices by their names, in both directions: ``NV12``, or one of the
    kinds of PCIe links."""
    is_configured: bool = False
    """Whether the source is a configuration file and not the node itself. Such a description only
    supplements those of other sources."""

    def find_nearest_nic(self, gpu: int) -> Device | None:
        """Return the network interface closest to the GPU with the index ``gpu``; None if no link
        between them is known.

        Of several equally close interfaces, the first is returned.
        """
        name = self.gpus[gpu].name
        near = [(weigh_link(self.links.get((name, nic.name))), nic) for nic in self.nics]
        known = [(weight, nic) for weight, nic in near if weight]
        return max(known, key=lambda pair: pair[0])[1] if known else None


def weigh_link(kind: str | None) -> int:
    """Return the relative weight of a link: roughly its bandwidth in GB/s in one direction, which
    was not measured. 0 for None and unknown kinds.

    ``kind`` is a name that ``nvidia-smi topo -m`` prints, such as ``NV12`` or ``PIX``.
    """
    match = _NVLINK.fullmatch(kind or "")
    return _PER_NVLINK * int(match.group(1)) if match else _PCIE.get(kind or "", 0)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs in a list such as ``0-3,8`` (the format of the kernel and of NVIDIA).

    Raises:
        ValueError: the text is not such a list, or contains more than ``MAX_CPUS`` CPUs or a
            higher number.
    """
    cpus: list[int] = []
    for part in text.strip().split(",") if text.strip() else []:
        match = _RANGE.fullmatch(part.strip())
        first = int(match.group(1)) if match else 0
        last = int(match.group(2) or first) if match else 0
        if match is None or last < first or last > MAX_CPUS:
            raise ValueError(f"{text[:80]!r} is not a list of CPUs such as 0-3,8")
        cpus += range(first, last + 1)
        if len(cpus) > MAX_CPUS:
            raise ValueError(f"{text[:80]!r} has more than {MAX_CPUS} CPUs")
    return tuple(cpus)


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Return CPUs as a list such as ``0-3,8``, which ``parse_cpu_list`` reads."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def merge_node(parts: Sequence[NodeTopology]) -> NodeTopology:
    """Merge the descriptions of one node by several sources.

    NUMA nodes and network interfaces are taken from the first source that has any. GPUs of
    different sources are matched by their index; a PCI address or NUMA node that the first source
    lacks is taken from the next. For each pair of devices, the link with the highest weight wins.

    Configuration files (``is_configured``) come after all other sources, and are ignored if their
    number of GPUs differs. The NUMA nodes of their GPUs are ignored if another source has NUMA
    nodes, because their numbers are not the kernel's. Their links are ignored if another source
    has NVLink.

    Raises:
        TopologyError: two sources have different numbers of GPUs.
    """
    result, *others = sorted(parts, key=lambda part: part.is_configured)
    for part in others:
        if part.is_configured:
            if result.gpus and len(result.gpus) != len(part.gpus):
                continue
            part = _drop_contradictions(part, result)
        if result.gpus and part.gpus and len(result.gpus) != len(part.gpus):
            raise TopologyError(
                f"{result.source} has {len(result.gpus)} GPUs and {part.source} has {len(part.gpus)}",
                "Take both from the same node, with all its GPUs visible.",
            )
        links = dict(result.links)
        for pair, kind in part.links.items():
            if weigh_link(kind) > weigh_link(links.get(pair)):
                links[pair] = kind
        result = replace(
            result,
            name=result.name or part.name,
            source=f"{result.source}, {part.source}",
            numa_nodes=result.numa_nodes or part.numa_nodes,
            gpus=tuple(map(_combine_devices, result.gpus, part.gpus)) or result.gpus or part.gpus,
            nics=result.nics or part.nics,
            links=links,
        )
    return result


def _drop_contradictions(part: NodeTopology, found: NodeTopology) -> NodeTopology:
    """Return ``part``, the content of a configuration file, without the values that contradict
    ``found``, the merged description by the other sources."""
    if found.numa_nodes:
        part = replace(part, gpus=tuple(replace(gpu, numa=None) for gpu in part.gpus))
    if any(_NVLINK.fullmatch(kind) for kind in found.links.values()):
        part = replace(part, links={})
    return part


def _combine_devices(one: Device, other: Device) -> Device:
    numa = other.numa if one.numa is None else one.numa
    return replace(one, pci=one.pci or other.pci, numa=numa)
