"""Links between PCI devices, named as ``nvidia-smi topo -m`` names them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

    from aitne.topology.node import Device


@dataclass(frozen=True)
class PciDevice:
    """A device with the bridges above it, the host bridge first; none if they are unknown."""

    device: Device
    bridges: tuple[str, ...]


def links(devices: Sequence[PciDevice]) -> dict[tuple[str, str], str]:
    """Return the kind of link of each pair of devices whose bridges are known, by their names."""
    return {
        (one.device.name, other.device.name): _kind(one, other)
        for one, other in permutations(devices, 2)
        if one.bridges and other.bridges
    }


def _kind(one: PciDevice, other: PciDevice) -> str:
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
