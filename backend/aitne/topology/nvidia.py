"""The output of ``nvidia-smi topo -m``.

Columns are separated by tabs; in copies of the output, by two or more spaces. The output does not
name the node.
"""

from __future__ import annotations

import re

from aitne.topology.errors import TopologyError
from aitne.topology.node import Device, NodeTopology, NumaNode, cpu_list

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d{1,3}", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)", re.ASCII)
_SPACES = re.compile(r"\t|\s{2,}")
_KIND = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[1-9]\d{0,2}", re.ASCII)
_MAX_DEVICES = 256
_REMEDY = "Give the whole output of `nvidia-smi topo -m`."


def has_matrix(text: str) -> bool:
    """Return whether the text contains the header line of the matrix."""
    return any(_header(line) for line in text.splitlines())


def read_matrix(text: str, file: str) -> NodeTopology:
    """Parse the output of ``nvidia-smi topo -m``: GPUs, network interfaces, links, and the NUMA
    nodes of the GPUs. The name of the node is None.

    Args:
        text: the output; lines before and after the matrix are allowed.
        file: name of the file or command, for error messages.

    Raises:
        TopologyError: the text has no complete matrix.
    """
    lines = _ESCAPE.sub("", text).splitlines()
    start = next((number for number, line in enumerate(lines) if _header(line)), None)
    if start is None:
        raise TopologyError("it has no matrix of GPUs", _REMEDY, file=file)
    columns = _header(lines[start])
    names = columns[: columns.index("CPU Affinity")]
    if len(set(names)) < len(names) or len(names) > _MAX_DEVICES:
        raise TopologyError(
            f"it names a device twice, or more than {_MAX_DEVICES} devices",
            _REMEDY,
            file=file,
            line=start + 1,
        )
    matches = map(_LEGEND.fullmatch, lines[start:])
    legend = {match[1]: match[2] for match in matches if match is not None}
    shown = {name: legend.get(name, name) for name in names}
    links: dict[tuple[str, str], str] = {}
    gpus: list[Device] = []
    numa_nodes: dict[int, tuple[int, ...]] = {}
    for offset, name in enumerate(names, start=1):
        line = lines[start + offset] if start + offset < len(lines) else ""
        cells = _cells(line, len(names))
        kinds = cells[1 : len(names) + 1]
        if cells[0] != name or len(kinds) < len(names) or not all(map(_KIND.fullmatch, kinds)):
            raise TopologyError(
                f"{line[:80]!r} is not the line of {name} with {len(names)} links",
                _REMEDY,
                file=file,
                line=start + offset + 1,
            )
        for other, kind in zip(names, kinds):  # noqa: B905 (3.9)
            if other != name:
                links[shown[name], shown[other]] = kind
        if _GPU.fullmatch(name):
            cpus, numa = _affinity(cells[len(names) + 1 :], file, start + offset + 1)
            gpus.append(Device(name, numa=numa))
            if numa is not None and cpus:
                numa_nodes[numa] = cpus
    return NodeTopology(
        name=None,
        source=file,
        numa_nodes=tuple(NumaNode(index, numa_nodes[index]) for index in sorted(numa_nodes)),
        gpus=tuple(gpus),
        nics=tuple(Device(shown[name]) for name in names if not _GPU.fullmatch(name)),
        links=links,
    )


def _header(line: str) -> list[str]:
    """Return the column names if ``line`` is the header of the matrix, otherwise an empty list."""
    plain = _ESCAPE.sub("", line)
    columns = [cell.strip() for cell in _SPACES.split(plain.strip())]
    is_header = plain[:1].isspace() and _GPU.fullmatch(columns[0]) and "CPU Affinity" in columns
    return columns if is_header else []


def _cells(line: str, devices: int) -> list[str]:
    """Split a row of the matrix into cells. Only the cells after the name and the links of the
    ``devices`` devices may be empty."""
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else _SPACES.split(line)
    return cells if len(cells) > devices else [cell.strip() for cell in cells]


def _affinity(cells: list[str], file: str, line: int) -> tuple[tuple[int, ...], int | None]:
    """Parse the columns after the links: CPU affinity and NUMA affinity. Unknown CPUs are an empty
    tuple, an unknown NUMA node is None. Raises ``TopologyError``."""
    text = cells[0].strip() if cells else ""
    try:
        cpus = () if text == "N/A" else cpu_list(text)
    except ValueError as error:
        raise TopologyError(str(error), _REMEDY, file=file, line=line) from error
    numa = cells[1].strip() if len(cells) > 1 else ""
    return cpus, int(numa) if numa.isascii() and numa.isdigit() and len(numa) < 6 else None
