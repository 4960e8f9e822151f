"""XML files of hwloc 2 and 3, which ``lstopo node.xml`` writes.

Format: https://www.open-mpi.org/projects/hwloc/doc/ (hwloc2.dtd). A file that declares entities is
refused, and no other file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from typing_extensions import override

from aitne.adapters.topologies._bounded_files import read_bounded_text
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import MAX_CPUS, Device, NodeTopology, NumaNode
from aitne_train.topology.pci_links import PciDevice, find_links
from aitne_train.topology.topology_parts import TopologyPart

_REMEDY = "Write the file again on the node: lstopo --of xml node.xml, with hwloc 2 or newer."
_WORD = re.compile(r"(0x)?[0-9a-f]{0,8}", re.ASCII)
_GPU_CLASSES = ("0300", "0302", "0380", "1200")
_GPU_VENDORS = ("10de", "1002")
_NIC_CLASSES = ("0200", "0207")
_MAX_DEPTH = 64
_MAX_OBJECTS = 200_000
_MAX_NUMA_NODES = 4_096
_HWLOC2_OPENFABRICS, _HWLOC3_OPENFABRICS = 3, 32


class HwlocTopology(TopologySource):
    """One node as hwloc describes it."""

    name = "hwloc"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        return path.suffix == ".xml" or head.lstrip().startswith("<?xml") or "<topology" in head

    @override
    def read(self, path: Path) -> TopologyPart:
        return TopologyPart(nodes=(_Reader(str(path)).read(read_bounded_text(path)),))


@dataclass
class _Object:
    attributes: Mapping[str, str]
    names: list[tuple[int, str]] = field(default_factory=list)
    """Types and names of the operating system's devices of a PCI device."""


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._handle_start_tag
        self._parser.EndElementHandler = self._handle_end_tag
        self._parser.CharacterDataHandler = self._handle_text
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.buffer_text = True
        self._stack: list[str] = []
        self._objects: list[_Object] = []
        self._count = 0
        self._major = 0
        self._host: str | None = None
        self._numa: list[NumaNode] = []
        self._gpus: list[tuple[str, PciDevice]] = []
        self._nics: list[PciDevice] = []
        self._device_of: dict[str, str] = {}
        """PCI address of each operating system's device by hwloc's number of it."""
        self._distances: str | None = None
        self._text: list[str] = []
        self._cpus = 0
        self._nodesets: dict[str, tuple[int, ...]] = {}
        self._indexes: list[str] = []
        self._values: list[str] = []

    def read(self, text: str) -> NodeTopology:
        try:
            self._parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            raise TopologyError(
                f"it is not valid XML: {expat.ErrorString(error.code)}",
                "The file may be truncated. " + _REMEDY,
                file=self._file,
                line=error.lineno,
            ) from error
        if not self._numa:
            raise TopologyError("it has no NUMA node", _REMEDY, file=self._file)
        self._gpus.sort(key=lambda gpu: gpu[0])
        gpus = [
            PciDevice(Device(f"GPU{index}", address, each.device.numa), each.bridges)
            for index, (address, each) in enumerate(self._gpus)
        ]
        return NodeTopology(
            name=None if self._host is None else self._host.partition(".")[0],
            source=self._file,
            numa_nodes=tuple(sorted(self._numa, key=lambda numa: numa.index)),
            gpus=tuple(gpu.device for gpu in gpus),
            nics=tuple(nic.device for nic in self._nics),
            links={**find_links([*gpus, *self._nics]), **self._compute_nvlinks(gpus)},
        )

    def _make_error(self, problem: str) -> TopologyError:
        line = self._parser.CurrentLineNumber
        return TopologyError(problem, _REMEDY, file=self._file, line=line)

    def _check_doctype(
        self, name: str, system: str | None, public: str | None, internal: int
    ) -> None:
        if internal:
            raise self._make_error("it has a document type of its own")

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._make_error(f"it declares the entity {name[:80]}")

    def _handle_start_tag(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._count += 1
        if self._count > _MAX_OBJECTS or len(self._stack) >= _MAX_DEPTH:
            raise self._make_error(
                f"it has more than {_MAX_OBJECTS} objects or {_MAX_DEPTH} levels of them"
            )
        if not self._stack:
            major = attributes.get("version", "1").partition(".")[0]
            if tag != "topology" or major not in ("2", "3"):
                raise self._make_error("it is not a topology of hwloc 2 or newer")
            self._major = int(major)
        self._stack.append(tag)
        if tag == "object":
            self._objects.append(_Object(attributes))
            self._record_object(attributes)
        elif tag == "info" and attributes.get("name") == "HostName":
            self._host = attributes.get("value")
        elif tag == "distances2hetero":
            self._distances = attributes.get("name")
        self._text.clear()

    def _handle_end_tag(self, tag: str) -> None:
        self._stack.pop()
        if tag == "object":
            ended = self._objects.pop()
            if ended.attributes.get("type") == "PCIDev":
                self._record_pci_device(ended)
        elif self._distances == "NVLinkBandwidth" and tag == "indexes":
            self._indexes += "".join(self._text).split()
        elif self._distances == "NVLinkBandwidth" and tag == "u64values":
            self._values += "".join(self._text).split()
        elif tag == "distances2hetero":
            self._distances = None

    def _handle_text(self, text: str) -> None:
        if self._distances is not None:
            self._text.append(text)

    def _record_object(self, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type")
        if kind == "NUMANode":
            index = attributes.get("os_index", "")
            if not index.isascii() or not index.isdigit() or len(index) > 6:
                raise self._make_error("a NUMA node has no number")
            cpus = self._parse_bitmap(attributes.get("cpuset", ""), MAX_CPUS)
            self._cpus += len(cpus)
            if self._cpus > MAX_CPUS or len(self._numa) >= _MAX_NUMA_NODES:
                raise self._make_error(
                    f"it has more than {MAX_CPUS} CPUs or {_MAX_NUMA_NODES} NUMA nodes"
                )
            self._numa.append(NumaNode(int(index), cpus))
        elif kind == "OSDev":
            pci = [each for each in self._objects if each.attributes.get("type") == "PCIDev"]
            if pci:
                number = attributes.get("osdev_type", "0")
                number_of_type = int(number) if re.fullmatch(r"[0-9]{1,6}", number) else 0
                pci[-1].names.append((number_of_type, attributes.get("name", "")))
                address = pci[-1].attributes.get("pci_busid", "")
                self._device_of[attributes.get("gp_index", "")] = address

    def _record_pci_device(self, ended: _Object) -> None:
        """Record a PCI device if it is a GPU or a network interface."""
        words = ended.attributes.get("pci_type", "").split()
        address = ended.attributes.get("pci_busid", "")
        kind, vendor = (words[0], words[1][1:5]) if len(words) > 1 else ("", "")
        bridges = tuple(
            each.attributes.get("pci_busid") or each.attributes.get("bridge_pci", "")
            for each in self._objects
            if each.attributes.get("type") == "Bridge"
        )
        numa = self._numa_of_ancestors()
        if kind in _GPU_CLASSES and vendor in _GPU_VENDORS:
            self._gpus.append((address, PciDevice(Device(address, address, numa), bridges)))
        elif kind in _NIC_CLASSES and ended.names:
            fabric = [name for number, name in ended.names if self._is_fabric(number)]
            name = (fabric or [name for _, name in ended.names])[0]
            self._nics.append(PciDevice(Device(name, address, numa), bridges))

    def _is_fabric(self, number: int) -> bool:
        if self._major == 2:
            return number == _HWLOC2_OPENFABRICS
        return bool(number & _HWLOC3_OPENFABRICS)

    def _numa_of_ancestors(self) -> int | None:
        for each in reversed(self._objects):
            if "nodeset" in each.attributes:
                text = each.attributes["nodeset"]
                if text not in self._nodesets:
                    self._nodesets[text] = self._parse_bitmap(text, _MAX_NUMA_NODES)
                near = self._nodesets[text]
                return near[0] if len(near) == 1 else None
        return None

    def _parse_bitmap(self, text: str, most: int) -> tuple[int, ...]:
        """Parse a bitmap in hwloc's notation and return the numbers of its set bits.

        Args:
            text: words of 32 bits separated by commas, the most significant first; an empty word
                is 0.
            most: maximum number of bits.

        Raises:
            TopologyError: the text is not a bitmap, or is longer.
        """
        words = text.split(",")
        if len(words) * 32 > most or not all(map(_WORD.fullmatch, words)):
            raise self._make_error(f"{text[:80]!r} is not a set of CPUs or NUMA nodes")
        bits = []
        for place, word in enumerate(reversed(words)):
            value = int(word.removeprefix("0x") or "0", 16)
            bits += [place * 32 + bit for bit in range(32) if value >> bit & 1]
        return tuple(bits)

    def _compute_nvlinks(self, gpus: list[PciDevice]) -> dict[tuple[str, str], str]:
        """Return the NVLinks between pairs of GPUs, such as ``NV4``. hwloc reports the total
        bandwidth of a pair in MB/s: 20,000 for each link of the first generation, 25,000 for later
        ones."""
        names = {gpu.device.pci: gpu.device.name for gpu in gpus}
        ends = [
            names.get(self._device_of.get(each.removeprefix("OSDev:"), ""))
            for each in self._indexes
        ]
        if len(self._values) != len(ends) ** 2:
            if ends:
                raise TopologyError(
                    "the matrix of NVLinks is not complete", _REMEDY, file=self._file
                )
            return {}
        found: dict[tuple[str, str], str] = {}
        for place, text in enumerate(self._values):
            one, other = ends[place // len(ends)], ends[place % len(ends)]
            if one is None or other is None or one == other or not re.fullmatch("[0-9]{1,9}", text):
                continue
            speed = int(text)
            count = speed // 25_000 if speed % 25_000 == 0 else max(speed // 20_000, 1)
            if speed:
                found[one, other] = f"NV{count}"
        return found
