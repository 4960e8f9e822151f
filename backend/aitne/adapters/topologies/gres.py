"""Slurm's configuration file ``gres.conf``: the GPUs of nodes with their ``Cores`` and ``Links``.

Format: https://slurm.schedmd.com/gres.conf.html. Resources other than GPUs are ignored, and so are
nodes with parts of GPUs (``MultipleFiles``). GPUs that ``AutoDetect`` would find on the node are
not included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from typing_extensions import override

from aitne.adapters.topologies._bounded_files import read_bounded_text
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.hostlist import expand_hostlist, split_outside_brackets
from aitne_train.topology.node_topology import Device, NodeTopology, NumaNode, parse_cpu_list
from aitne_train.topology.slurm import Names, parse_conf_line, split_conf_lines
from aitne_train.topology.switch_tree import SourceLine
from aitne_train.topology.topology_parts import TopologyPart

_LINE = re.compile(
    r"^[ \t]*(NodeName=\S+[ \t]([^\n=]+=\S*[ \t])*)?[ \t]*(Name|AutoDetect)=",
    re.MULTILINE | re.IGNORECASE,
)
_INCLUDE = re.compile(r"include\s", re.IGNORECASE)
_KEYS = frozenset({"nodename", "name", "type", "file", "multiplefiles", "count"}) | frozenset(
    {"cores", "cpus", "links", "flags", "autodetect"}
)
_REMEDY = "Write lines such as NodeName=n[1-4] Name=gpu File=/dev/nvidia0 Cores=0-15 Links=-1,4."
_LINKS = re.compile(r"(-1|[0-9]{1,3})(,(-1|[0-9]{1,3}))*", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,4}", re.ASCII)
_MOST_GPUS = 256
"""Maximum number of GPUs of a node."""
_MOST_CORES = 1 << 20
"""Maximum number of cores in all lists of a file."""
_MOST_VALUES = 1_000_000
"""Maximum number of GPUs and links of all nodes."""


class GresTopology(TopologySource):
    """Source of topologies: the GPUs of nodes in Slurm's ``gres.conf``."""

    name = "gres"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        return path.name == "gres.conf" or _LINE.search(head) is not None

    @override
    def read(self, path: Path) -> TopologyPart:
        return TopologyPart(nodes=_Reader(str(path)).read(read_bounded_text(path)))


@dataclass(frozen=True)
class _Gpus:
    """GPUs that one line describes."""

    source: SourceLine
    """The line."""
    count: int
    """Number of GPUs."""
    cores: tuple[int, ...] = ()
    """Numbers of the CPU cores close to the GPUs; empty: unknown."""
    links: tuple[int, ...] = ()
    """Number of links to each GPU of the node, -1 for the GPU itself; empty: unknown."""


@dataclass
class _Lines:
    """Lines about one node, or about all nodes."""

    gpus: list[_Gpus] = field(default_factory=list)
    """GPUs by line."""
    count: int = 0
    """Number of GPUs."""
    has_parts: bool = False
    """Whether a line describes parts of GPUs."""


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._names = Names()
        self._every = _Lines()
        self._of_node: dict[str, _Lines] = {}
        self._cores: dict[str, tuple[int, ...]] = {}
        """Lists of cores by their text: most lines have the same ones."""
        self._autodetect = False
        self._values = 0

    def read(self, text: str) -> tuple[NodeTopology, ...]:
        for number, line in split_conf_lines(text):
            self._parse_line(line, SourceLine(self._file, number))
        nodes = tuple(self._make_node_topologies())
        if not nodes:
            raise TopologyError(
                "it describes no GPUs with Cores or Links",
                "AutoDetect finds them on the node, and its jobs report them."
                if self._autodetect
                else _REMEDY,
                file=self._file,
            )
        return nodes

    def _parse_line(self, line: str, source: SourceLine) -> None:
        if _INCLUDE.match(line):
            raise source.make_error(
                "it includes another file", "Put the lines of that file in its place."
            )
        values = parse_conf_line(line, source, _REMEDY)
        if unknown := sorted(set(values) - _KEYS):
            raise source.make_error(f"{unknown[0]} is not a key of a gres.conf", _REMEDY)
        self._autodetect |= "autodetect" in values
        if "nodename" in values:
            names = self._names.expand_hostlist(values["nodename"], source)
            if not names:
                raise source.make_error("NodeName names no node", _REMEDY)
            targets = [self._of_node.setdefault(name, _Lines()) for name in dict.fromkeys(names)]
        else:
            targets = [self._every]
        if "name" not in values:
            if "autodetect" not in values:
                raise source.make_error("it names no resource", _REMEDY)
            return
        if values["name"].lower() != "gpu":
            return
        gpus = self._parse_gpus(values, source)
        for lines in targets:
            lines.has_parts |= "multiplefiles" in values
            lines.count += gpus.count
            if lines.count > _MOST_GPUS:
                raise source.make_error(
                    f"a node has more than {_MOST_GPUS} GPUs", "Check the range of File."
                )
            if gpus.count:
                lines.gpus.append(gpus)

    def _parse_gpus(self, values: dict[str, str], source: SourceLine) -> _Gpus:
        count = values.get("count")
        if count is not None and not _COUNT.fullmatch(count):
            raise source.make_error(f"{count[:80]!r} is not a number of GPUs", _REMEDY)
        number = 1 if count is None else int(count)
        if "file" in values:
            files = _count_device_files(values["file"], source)
            if count is not None and number != files:
                raise source.make_error(
                    f"Count is {number}, and File names {files} files",
                    "Leave out Count.",
                )
            number = files
        links: tuple[int, ...] = ()
        if "links" in values:
            text = values["links"]
            links = tuple(map(int, text.split(","))) if _LINKS.fullmatch(text) else ()
            if links.count(-1) != 1 or number != 1:
                raise source.make_error(
                    f"{text[:80]!r} are not the links of {number} GPUs"
                    if number != 1
                    else f"{text[:80]!r} are not numbers of links with one -1 for the GPU itself",
                    "Write one line for each GPU, such as Name=gpu File=/dev/nvidia0 Links=-1,4,4,4.",
                )
        cores = self._core_list(values.get("cores", values.get("cpus", "")), source)
        return _Gpus(source, number, cores, links)

    def _core_list(self, text: str, source: SourceLine) -> tuple[int, ...]:
        if text in self._cores:
            return self._cores[text]
        try:
            cores = parse_cpu_list(text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text)
        except ValueError as error:
            raise source.make_error(str(error), "Write Cores such as 0-15 or 0,2,4.") from error
        self._cores[text] = tuple(sorted(set(cores)))
        if sum(map(len, self._cores.values())) > _MOST_CORES:
            raise source.make_error(
                f"the file has more than {_MOST_CORES} cores", "Check the ranges of Cores."
            )
        return self._cores[text]

    def _make_node_topologies(self) -> Iterator[NodeTopology]:
        """Yield the described nodes; a single node without a name if no line names a node. Nodes
        with parts of GPUs, or without cores and links, are omitted. Raises ``TopologyError``.
        """
        done: dict[tuple[int, ...], NodeTopology | None] = {}
        for name, own in self._of_node.items() or [(None, _Lines())]:
            if own.has_parts or self._every.has_parts:
                continue
            gpus = [*self._every.gpus, *own.gpus]
            key = tuple(each.source.line for each in gpus)
            if key not in done:
                done[key] = _make_node_topology(gpus, self._file)
            node = done[key]
            self._values += len(gpus) + (len(node.gpus) + len(node.links) if node else 0)
            if self._values > _MOST_VALUES:
                raise gpus[-1].source.make_error(
                    f"the nodes have more than {_MOST_VALUES} GPUs and links",
                    "Check the host lists for a wrong range, or import several files.",
                )
            if node is not None:
                yield replace(node, name=name)


def _make_node_topology(lines: Sequence[_Gpus], file: str) -> NodeTopology | None:
    """Convert the lines about one node to its topology, without a name. Return None if neither
    cores nor links are known. Raises ``TopologyError`` if the numbers of links contradict each
    other.
    """
    placed = _order_by_index(lines)
    sets = sorted({line.cores for line in placed if line.cores})
    # Sort order: by the first core. Sets that overlap are not those of NUMA nodes.
    if sum(map(len, sets)) > len({core for cores in sets for core in cores}):
        sets = []
    numa_of = {cores: index for index, cores in enumerate(sets)}
    links: dict[tuple[str, str], str] = {}
    for index, line in enumerate(placed):
        for other, number in enumerate(line.links):
            back = placed[other].links
            if back and other != index and back[index] != number:
                raise line.source.make_error(
                    f"GPU {index} has {number} links to GPU {other}, which has {back[index]} to it",
                    "Write the same number in both lines.",
                )
            if number > 0:
                links[f"GPU{index}", f"GPU{other}"] = f"NV{number}"
                links[f"GPU{other}", f"GPU{index}"] = f"NV{number}"
    if not sets and not any(line.links for line in placed):
        return None
    return NodeTopology(
        name=None,
        source=file,
        numa_nodes=tuple(NumaNode(index, cores) for cores, index in numa_of.items()),
        gpus=tuple(
            Device(f"GPU{index}", numa=numa_of.get(line.cores)) for index, line in enumerate(placed)
        ),
        links=links,
        is_configured=True,
    )


def _order_by_index(lines: Sequence[_Gpus]) -> list[_Gpus]:
    """Return the line of each GPU of a node, in the order of the GPUs' indices.

    The index of a GPU with links is the position of -1 in its links. GPUs without links get the
    remaining indices in the order of the lines. Raises ``TopologyError`` if links are inconsistent.
    """
    count = sum(line.count for line in lines)
    placed: dict[int, _Gpus] = {}
    for line in lines:
        if not line.links:
            continue
        if len(line.links) != count:
            raise line.source.make_error(
                f"it has {len(line.links)} numbers of links, and its node has {count} GPUs",
                "Write a number for each GPU, and -1 for the GPU itself.",
            )
        index = line.links.index(-1)
        if index in placed:
            raise line.source.make_error(
                f"GPU {index} has links in line {placed[index].source.line} already",
                "Write -1 at the place of the GPU itself.",
            )
        placed[index] = line
    free = (index for index in range(count) if index not in placed)
    others = [line for line in lines if not line.links for _ in range(line.count)]
    placed.update(zip(free, others, strict=True))
    return [placed[index] for index in range(count)]


def _count_device_files(text: str, source: SourceLine) -> int:
    """Return the number of device files in a list such as ``/dev/nvidia[0-3]``."""
    count = 0
    try:
        for part in split_outside_brackets(text, "[]"):
            folder, _, name = part.rpartition("/")
            if not folder.startswith("/") or set(folder) & set("[]"):
                raise ValueError(f"{part[:80]!r} is not a device file")
            count += len(expand_hostlist(name))
            if count > _MOST_GPUS:
                break
    except ValueError as error:
        raise source.make_error(str(error), "Write File such as /dev/nvidia[0-3].") from error
    return count
