"""Links between PCI devices, named as ``nvidia-smi topo -m`` names them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

    from aitne_train.topology.node_topology import Device


@dataclass(frozen=True)
class PciDevice:
    """A PCI device and its position in the PCI tree."""

    device: Device
    """The device."""
    bridges: tuple[str, ...]
    """PCI bridges above the device, starting with the host bridge; empty: unknown."""


def find_links(devices: Sequence[PciDevice]) -> dict[tuple[str, str], str]:
    """Return the kind of link, such as ``PIX``, of each pair of device names, in both directions.
    Devices with unknown bridges are omitted."""
    return {
        (one.device.name, other.device.name): _find_link_kind(one, other)
        for one, other in permutations(devices, 2)
        if one.bridges and other.bridges
    }


def _find_link_kind(one: PciDevice, other: PciDevice) -> str:
    common = 0
    for here, there in zip(one.bridges, other.bridges):  # noqa: B905 (3.9)
        if here != there:
            break
        common += 1
    if common > 1:  # a bridge below the host bridge
        between = max(len(one.bridges), len(other.bridges)) - common
        return "PIX" if between < 2 else "PXB"
    if common == 1:
        return "PHB"
    numa = one.device.numa
    return "NODE" if numa is not None and numa == other.device.numa else "SYS"
