"""The output of ``nvidia-smi topo -m``.

Columns are separated by tabs; in copies of the output by blanks, of which a tab may have become a
single one. The output does not name the node.
"""

from __future__ import annotations

import re

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import Device, NodeTopology, NumaNode, parse_cpu_list

_ESCAPE = re.compile(r"\x1b?\[[0-9;]*m")
"""Escape sequence of the underlined heading; some copies have lost its first character."""
_GPU = re.compile(r"GPU\d{1,3}", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*", re.ASCII)
_KIND = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[1-9]\d{0,2}", re.ASCII)
_OLD_KINDS = {"SOC": "SYS"}
"""Kinds of links of old drivers with their present names."""
_CPUS, _NUMA = "CPU Affinity", "NUMA Affinity"
_MAX_DEVICES = 256
_REMEDY = "Give the whole output of `nvidia-smi topo -m`."


def has_matrix(text: str) -> bool:
    """Return whether the text contains the header line of the matrix."""
    return any(_parse_header(line) for line in text.splitlines())


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
    start = next((number for number, line in enumerate(lines) if _parse_header(line)), None)
    if start is None:
        raise TopologyError("it has no matrix of GPUs", _REMEDY, file=file)
    names = _parse_header(lines[start])
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
        name_in_row, *words = line.split() or [""]
        kinds = [_OLD_KINDS.get(word, word) for word in words[: len(names)]]
        if name_in_row != name or len(kinds) < len(names) or not all(map(_KIND.fullmatch, kinds)):
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
            texts = _split_affinity_columns(line, len(names), lines[start])
            cpus, numa = _parse_affinity(*texts, file, start + offset + 1)
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


def _parse_header(line: str) -> list[str]:
    """Return the names of the devices if ``line`` is the header of the matrix, otherwise an empty
    list."""
    before, label, _ = _ESCAPE.sub("", line).partition(_CPUS)
    names = before.split()
    is_header = label and names and _GPU.fullmatch(names[0]) and all(map(_DEVICE.fullmatch, names))
    return names if is_header else []


def _split_affinity_columns(line: str, devices: int, header: str) -> tuple[str, str]:
    """Return the texts in the columns with the CPUs and the NUMA node of a row, which may be empty.
    ``devices`` is the number of devices."""
    cells = [cell.strip() for cell in line.lstrip().split("\t")][devices + 1 :]
    if not any(cells) or any(" " in cell for cell in cells):  # not all tabs are left
        cells = line.split()[devices + 1 :]
        at = header.find(_NUMA) if header[:1].isspace() else -1
        if len(cells) == 1 and 0 < at <= len(line.rstrip()) - len(cells[0]):
            cells = ["", *cells]
    cpus, numa = (*cells, "", "")[:2]
    return cpus, numa


def _parse_affinity(
    cpus_text: str, numa_text: str, file: str, line: int
) -> tuple[tuple[int, ...], int | None]:
    """Parse the columns after the links: CPU affinity and NUMA affinity. Unknown CPUs are an empty
    tuple, an unknown NUMA node is None. Raises ``TopologyError``."""
    try:
        cpus = () if cpus_text in ("", "N/A") else parse_cpu_list(cpus_text)
    except ValueError as error:
        raise TopologyError(str(error), _REMEDY, file=file, line=line) from error
    is_number = numa_text.isascii() and numa_text.isdigit() and len(numa_text) < 6
    return cpus, int(numa_text) if is_number else None
