"""Reader of a node's topology in ``/sys``, or in a copy of this folder, without external programs.

https://docs.kernel.org/PCI/sysfs-pci.html, https://docs.kernel.org/admin-guide/mm/numaperf.html
"""

from __future__ import annotations

import re
from pathlib import Path

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import Device, NodeTopology, NumaNode, parse_cpu_list
from aitne_train.topology.pci_links import PciDevice, find_links

_NUMA = re.compile(r"node(\d{1,5})", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VIRTUAL_NICS = ("lo",)
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_GPU_VENDORS = ("0x10de", "0x1002")
_MAX_DEVICES = 4_096
_MAX_NICS = 257
"""Maximum number of network interfaces; the number of links grows with its square."""
_MAX_CHARACTERS = 65_536


def read_sysfs(root: str) -> NodeTopology:
    """Return the NUMA nodes, GPUs, network interfaces and PCIe links of a node. The kernel does not
    show NVLink there, and the name of the node is None.

    Args:
        root: ``/sys``, or a copy of it.

    Raises:
        TopologyError: ``root`` is not such a folder, or cannot be read.
    """
    try:
        return _read_root(Path(root))
    except (OSError, RuntimeError, ValueError) as error:  # a link that leads to itself, too
        if isinstance(error, TopologyError):
            raise
        raise TopologyError(
            f"it cannot be read: {error}", "Give /sys of a Linux machine.", file=root
        ) from error


def _read_root(root: Path) -> NodeTopology:
    numa_nodes = [
        NumaNode(int(match[1]), parse_cpu_list(_read_value(folder / "cpulist")))
        for folder in sorted((root / "devices" / "system" / "node").iterdir())
        if (match := _NUMA.fullmatch(folder.name))
    ]
    if not numa_nodes:
        raise TopologyError(
            "there is no NUMA node in it", "Give /sys of a Linux machine.", file=str(root)
        )
    gpus: list[PciDevice] = []
    devices = root / "bus" / "pci" / "devices"
    folders = sorted(devices.iterdir())[:_MAX_DEVICES] if devices.is_dir() else []
    for folder in folders:
        kind, vendor = _read_value(folder / "class"), _read_value(folder / "vendor")
        if kind.startswith(_GPU_CLASSES) and vendor in _GPU_VENDORS:
            gpus.append(_read_device(f"GPU{len(gpus)}", folder, root))
    nics = list(_list_nics(root))
    return NodeTopology(
        name=None,
        source=str(root),
        numa_nodes=tuple(sorted(numa_nodes, key=lambda numa: numa.index)),
        gpus=tuple(gpu.device for gpu in gpus),
        nics=tuple(nic.device for nic in nics),
        links=find_links([*gpus, *nics]),
    )


def _list_nics(root: Path) -> list[PciDevice]:
    """Return the network interfaces that have a PCI address. If an InfiniBand and an Ethernet
    device have the same address, only the InfiniBand device is returned."""
    nics: dict[str, PciDevice] = {}
    for kind in ("infiniband", "net"):
        folder = root / "class" / kind
        for entry in sorted(folder.iterdir())[:_MAX_DEVICES] if folder.is_dir() else []:
            if entry.name in _VIRTUAL_NICS:
                continue
            device = _read_device(entry.name, entry, root)
            if device.device.pci is not None and device.device.pci not in nics:
                nics[device.device.pci] = device
    return list(nics.values())[:_MAX_NICS]


def _read_device(name: str, folder: Path, root: Path) -> PciDevice:
    """Return the PCI device of a folder in ``/sys``, named ``name``; without PCI address and bridges
    if no folder on its path is a PCI device."""
    real = folder.resolve()
    parts = real.parts[len(root.resolve().parts) :]
    addresses = [part for part in parts if _ADDRESS.fullmatch(part)]
    if not addresses:
        return PciDevice(Device(name), ())
    depth = len(root.resolve().parts) + parts.index(addresses[-1]) + 1
    numa = _read_value(Path(*real.parts[:depth]) / "numa_node")
    host = next((part for part in parts if part.startswith("pci")), "pci")
    return PciDevice(
        Device(name, addresses[-1], int(numa) if numa.isascii() and numa.isdigit() else None),
        (host, *addresses[:-1]),
    )


def _read_value(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(_MAX_CHARACTERS).strip()
    except FileNotFoundError:
        return ""
