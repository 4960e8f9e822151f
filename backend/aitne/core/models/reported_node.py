"""Description of a node in the report of a job's agent.

An agent runs as the job's owner, so its report is not trusted.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Frozen
from aitne_train.topology.node_topology import parse_cpu_list

MOST_GPUS, MOST_NICS = 64, 256
_MOST_LINKS = 2 * MOST_GPUS * (MOST_GPUS + MOST_NICS)
Index = Annotated[int, Field(ge=0, le=65_536)]
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
LinkKind = Annotated[str, Field(pattern=r"^(PIX|PXB|PHB|NODE|SYS|NV[1-9][0-9]{0,2})$")]


class ReportedNumaNode(Frozen):
    """A NUMA node with its CPUs."""

    index: Index
    cpus: str = Field(pattern=r"^[0-9,-]{0,4000}$")


class ReportedDevice(Frozen):
    """A GPU or a network interface."""

    name: DeviceName
    pci: str | None = Field(None, pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
    """PCI address; None: unknown."""
    numa: Index | None = None
    """Number of the NUMA node that the device is attached to; None: unknown."""


class ReportedNode(Frozen):
    """Description of a node, valid until its next boot."""

    boot_id: str = Field(pattern=r"^[0-9a-f-]{36}$")
    python: str = Field(pattern=r"^3\.[0-9]{1,3}$")
    numa_nodes: tuple[ReportedNumaNode, ...] = Field(min_length=1, max_length=256)
    gpus: tuple[ReportedDevice, ...] = Field(max_length=MOST_GPUS)
    nics: tuple[ReportedDevice, ...] = Field(max_length=MOST_NICS)
    links: tuple[tuple[DeviceName, DeviceName, LinkKind], ...] = Field(max_length=_MOST_LINKS)
    """Links between pairs of devices: the names of both devices and the kind of the link."""

    @field_validator("numa_nodes")
    @classmethod
    def _check_numa_nodes(cls, value: tuple[ReportedNumaNode, ...]) -> tuple[ReportedNumaNode, ...]:
        if len({numa.index for numa in value}) < len(value):
            raise ValueError("a NUMA node is described twice")
        cpus: set[int] = set()
        for numa in value:
            own = parse_cpu_list(numa.cpus)
            if not cpus.isdisjoint(own) or len(set(own)) < len(own):
                raise ValueError("a CPU is named twice")
            cpus.update(own)
        return value

    @model_validator(mode="after")
    def _known_devices(self) -> Self:
        names = [device.name for device in (*self.gpus, *self.nics)]
        known = set(names)
        if len(known) < len(names):
            raise ValueError("a device is described twice")
        if any(one == other or not known >= {one, other} for one, other, _ in self.links):
            raise ValueError("a link is not one of two devices of the node")
        return self
