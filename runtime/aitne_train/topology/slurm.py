"""Reader of Slurm's ``topology.conf`` and of the output of ``scontrol show topology``.

Formats: https://slurm.schedmd.com/topology.conf.html, and `_print_topo_record` in Slurm's
`topology_tree.c` and `topology_block.c`, which has not changed from 22.05 to 26.05 apart from a
space at the end of a line.
"""

from __future__ import annotations

import re

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.hostlist import compress_hostlist, expand_hostlist
from aitne_train.topology.switch_tree import MAX_NODES, SourceLine, Switch

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterator, Sequence

    from aitne_train.topology.switch_tree import TopologyTree

MAX_BYTES = 16 << 20
"""Maximum size of a file with a topology."""
ALL_BLOCKS = "(all blocks)"
"""Name of the root above the blocks. No block can have this name."""
_PAIR = re.compile(r'([A-Za-z]+)=("[^"]*"|[^\s"]*)(?:\s+|$)', re.ASCII)
_SWITCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_SIZE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_OF_A_SWITCH = frozenset({"switchname", "switches", "nodes", "linkspeed"})
_OF_A_BLOCK = frozenset({"blockname", "nodes"})
_EXAMPLE = (
    "Write lines such as SwitchName=leaf0 Nodes=n[1-4] or SwitchName=core Switches=leaf[0-3]."
)


def parse_conf(text: str, file: str) -> list[Switch]:
    """Return the switches or blocks in the text of a ``topology.conf``.

    Raises:
        TopologyError: a line cannot be read; names its number and the remedy.
    """
    switches: list[Switch] = []
    blocks: list[Switch] = []
    sizes: list[int] = []
    names = Names()
    for number, line in split_conf_lines(text):
        source = SourceLine(file, number)
        values = parse_conf_line(line, source)
        keys = set(values)
        if "switchname" in keys and keys <= _OF_A_SWITCH:
            switches.append(_parse_switch(values, source, names))
        elif "blockname" in keys and keys <= _OF_A_BLOCK:
            blocks.append(build_block(values["blockname"], values.get("nodes", ""), source, names))
        elif keys == {"blocksizes"}:
            sizes = parse_block_sizes(values["blocksizes"].split(","), source)
        elif "ringname" in keys:
            raise source.make_error(
                "the file has rings, which are no tree and no blocks",
                "Ranks are numbered in the order that Slurm gives; use no topology here.",
            )
        else:
            raise source.make_error(f"{line[:80]!r} is not a line of a topology", _EXAMPLE)
    if switches and blocks:
        later = max(switches[0].source, blocks[0].source, key=lambda source: source.line)
        raise later.make_error("the file has switches and blocks", "Use one of the two.")
    if not switches and not blocks:
        raise TopologyError("there is no switch and no block in it", _EXAMPLE, file=file)
    return switches or add_blocks_above(blocks, sizes)


def format_conf(tree: TopologyTree) -> str:
    """Return the switches of a tree as the text of a ``topology.conf``. Blocks are written as
    switches, and switches without anything below them are left out. Names that are not valid for
    switches are replaced by ``blocks-<number>``."""
    names: dict[str, str] = {}
    for number, name in enumerate(tree.switches):
        names[name] = name if _SWITCH.fullmatch(name) else f"blocks-{number}"
    return "".join(
        f"SwitchName={names[switch.name]} "
        + (
            f"Nodes={compress_hostlist(switch.nodes)}"
            if switch.nodes
            else f"Switches={','.join(names[below] for below in switch.switches)}"
        )
        + "\n"
        for switch in tree.switches.values()
        if switch.nodes or switch.switches
    )


def parse_shown_topology(text: str, file: str = "scontrol show topology") -> list[Switch]:
    """Parse the output of ``scontrol show topology`` and return its switches or blocks; an empty list
    if Slurm has no topology. Unknown keys are ignored.

    Args:
        text: the output.
        file: name of the file or command, for error messages.

    Raises:
        TopologyError: the output cannot be read.
    """
    switches: list[Switch] = []
    blocks: list[Switch] = []
    aggregated: list[tuple[str, list[str], SourceLine]] = []
    names = Names()
    for number, line in split_conf_lines(text):
        source = SourceLine(file, number)
        if "=" not in line and " " in line:
            continue  # a sentence, such as "No topology information available"
        values = parse_conf_line(line, source)
        nodes = "" if values.get("nodes") == "(null)" else values.get("nodes", "")
        if "switchname" in values:
            # Slurm lists all nodes below a switch, also those of the leaves below it.
            values["nodes"] = "" if values.get("switches") else nodes
            switches.append(_parse_switch(values, source, names))
        elif "aggregatedblock" in values:
            name = values["aggregatedblock"]
            aggregated.append((name, names.expand_hostlist(name, source), source))
        elif "blockname" in values and nodes:
            blocks.append(build_block(values["blockname"], nodes, source, names))
    if not blocks:
        return switches
    top = {each.name: each.name for each in blocks}
    # Sort order: by the number of blocks, so that a block is combined before those that contain it.
    for name, parts, source in sorted(aggregated, key=lambda each: len(each[1])):
        below = tuple(dict.fromkeys(top[part] for part in parts if part in top))
        if len(below) > 1:
            blocks.append(Switch(name, source, switches=below, is_block=True))
            top.update(dict.fromkeys(parts, name))
    return _add_root(blocks, list(dict.fromkeys(top.values())))


class Names:
    """Parser of the host lists of one topology, which may have at most ``MAX_NODES`` names in
    total."""

    def __init__(self) -> None:
        self._count = 0

    def expand_hostlist(self, text: str, source: SourceLine) -> list[str]:
        """Expand a host list to names.

        Args:
            text: the host list.
            source: its file and line, for error messages.

        Raises:
            TopologyError: the list is invalid, or all lists together have too many names.
        """
        try:
            names = expand_hostlist(text)
        except ValueError as error:
            raise source.make_error(str(error), "Write a host list such as n[01-16,20].") from error
        self._count += len(names)
        if self._count > MAX_NODES:
            raise source.make_error(
                f"the topology has more than {MAX_NODES} names",
                "Check the host lists for a wrong range.",
            )
        return names


def build_block(name: str, nodes: str, source: SourceLine, names: Names) -> Switch:
    """Return the block ``name`` with the nodes of the host list ``nodes``.

    Raises:
        TopologyError: the name or the host list is invalid; contains ``source``.
    """
    members = tuple(names.expand_hostlist(nodes, source))
    return Switch(_check_name(name, source), source, nodes=members, is_block=True)


def parse_block_sizes(words: Sequence[str], source: SourceLine) -> list[int]:
    """Parse Slurm's ``BlockSizes``: numbers of nodes, starting with the size of a single block.

    Raises:
        TopologyError: a size is not a positive number or not a multiple of the one before it;
            contains ``source``.
    """
    sizes = [int(word) if _SIZE.fullmatch(word.strip()) else 0 for word in words]
    for size, before in zip(sizes, [1, *sizes]):  # noqa: B905 (3.9)
        if not size or size % before:
            raise source.make_error(
                f"{','.join(words)[:80]!r} are not sizes of blocks",
                "Write numbers that are each a multiple of the one before, such as 4,16.",
            )
    return sizes


def add_blocks_above(blocks: Sequence[Switch], sizes: Sequence[int]) -> list[Switch]:
    """Return the blocks, the aggregated blocks above them, and a root if several remain at the top.

    Args:
        blocks: the blocks in Slurm's order.
        sizes: Slurm's ``BlockSizes``; each size after the first is one level of aggregated blocks.
    """
    switches = list(blocks)
    top = [each.name for each in blocks]
    combined = 1
    for size in sizes[1:]:
        count, combined = size // sizes[0] // combined, size // sizes[0]
        groups = [top[start : start + count] for start in range(0, len(top), max(count, 1))]
        if count < 2 or len(top) < 2:
            continue
        by_name = {each.name: each for each in switches}
        top = []
        for group in groups:
            if len(group) == 1:
                top += group
                continue
            first, last = (
                group[0].strip("()").split(" to ")[0],
                group[-1].strip("()").split(" to ")[-1],
            )
            name = f"({first} to {last})"
            source = by_name[group[0]].source
            switches.append(Switch(name, source, switches=tuple(group), is_block=True))
            top.append(name)
    return _add_root(switches, top)


def _add_root(switches: list[Switch], top: Sequence[str]) -> list[Switch]:
    if len(top) < 2:
        return switches
    root = Switch(ALL_BLOCKS, switches[0].source, switches=tuple(top), is_block=True)
    return [*switches, root]


def split_conf_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that have content with their numbers; a backslash continues a line."""
    begun, start = "", 0
    number = 0
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        start = start or number
        if content.endswith("\\"):
            begun += content[:-1] + " "
            continue
        if (begun + content).strip():
            yield start, (begun + content).strip()
        begun, start = "", 0
    if begun.strip():
        yield start, begun.strip()


def parse_conf_line(line: str, source: SourceLine, remedy: str = _EXAMPLE) -> dict[str, str]:
    """Return the values of a line such as ``SwitchName=s1 Nodes=n[1-4]`` by their keys in lower case.

    Raises:
        TopologyError: a part of the line is no such value, or a key is given twice.
    """
    values: dict[str, str] = {}
    place = 0
    while place < len(line):
        match = _PAIR.match(line, place)
        if match is None:
            wrong = line[place : place + 80]
            raise source.make_error(f"{wrong!r} is not a value such as Nodes=n[1-4]", remedy)
        key = match.group(1).lower()
        if key in values:
            raise source.make_error(f"{match.group(1)} is given twice", "Give each value once.")
        values[key] = match.group(2).strip('"')
        place = match.end()
    return values


def _parse_switch(values: dict[str, str], source: SourceLine, names: Names) -> Switch:
    return Switch(
        _check_name(values["switchname"], source),
        source,
        switches=tuple(names.expand_hostlist(values.get("switches", ""), source)),
        nodes=tuple(names.expand_hostlist(values.get("nodes", ""), source)),
    )


def _check_name(text: str, source: SourceLine) -> str:
    names = Names().expand_hostlist(text, source)
    if len(names) != 1:
        raise source.make_error(
            f"{text[:80]!r} is not the name of a switch or block", "Write one name."
        )
    return names[0]
