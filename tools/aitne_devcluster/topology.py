"""Network topology of a cluster: Slurm's file with it, by arrangement or as a file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from aitne.adapters.topologies.slurm_file import SlurmFileTopology
from aitne.core.errors import InvalidInput, SetupError
from aitne.core.models.base import Frozen
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.topology_parts import combine_parts

ARRANGEMENTS = ("interleaved", "cyclic", "block")
"""Values of ``--topology`` that are not files."""
_MOST_LEAVES = 4
_FIRST_WITH_BLOCKS = (23, 11)
_FIRST_WITH_YAML = (25, 5)
_MOST_SHOWN = 8


class DevTopology(Frozen):
    """Slurm's file with the topology of a cluster."""

    file: Literal["topology.conf", "topology.yaml"] = "topology.conf"
    plugin: Literal["tree", "block"] = "tree"
    text: str = ""
    leaves: Mapping[str, tuple[str, ...]] = {}
    """Nodes at each leaf switch, or in each block."""

    def check(self, version: tuple[int, ...]) -> None:
        """Raise ``SetupError`` if the Slurm release ``version`` cannot read the file."""
        needed: tuple[int, int] = (0, 0)
        if self.file == "topology.yaml":
            needed = _FIRST_WITH_YAML
        elif self.plugin == "block":
            needed = _FIRST_WITH_BLOCKS
        if version < needed:
            what = "topology.yaml" if self.file == "topology.yaml" else "blocks"
            raise SetupError(
                f"Slurm {version[0]}.{version[1]:02} does not know {what}, only "
                f"{needed[0]}.{needed[1]:02} and later: use --slurm trixie (24.11) or --slurm sid (26.05)."
            )


def make_arranged_topology(
    arrangement: str | None, nodes: Sequence[str], clouds: Sequence[str]
) -> DevTopology:
    """Return the topology of an arrangement of ``ARRANGEMENTS``, or of None: two leaf switches with
    consecutive names. The nodes ``clouds`` are on one more leaf, or in one more block.
    """
    if arrangement is None:
        parts = _split_consecutive(nodes, min(2, len(nodes)))
    else:
        count = min(_MOST_LEAVES, max(1, len(nodes) // 2))
        parts = _split_consecutive(nodes, count)
        if arrangement != "block":
            parts = [tuple(nodes[number::count]) for number in range(count)]
    if clouds:
        parts.append(tuple(clouds))
    if arrangement == "block":
        return _make_block_topology(parts)
    leaves = {f"leaf{number}": part for number, part in enumerate(parts, 1)}
    lines = [f"SwitchName={leaf} Nodes={compress_hostlist(part)}" for leaf, part in leaves.items()]
    below, root = list(leaves), "spine"
    if arrangement == "cyclic":
        pods = {
            f"pod{number // 2 + 1}": below[number : number + 2]
            for number in range(0, len(below), 2)
        }
        lines += [f"SwitchName={pod} Switches={','.join(part)}" for pod, part in pods.items()]
        below, root = list(pods), "core"
    lines.append(f"SwitchName={root} Switches={compress_hostlist(below)}")
    return DevTopology(text="\n".join(lines) + "\n", leaves=leaves)


def _split_consecutive(nodes: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Return ``nodes`` in ``count`` parts of consecutive names; the first parts have one more node
    if the number of nodes is not a multiple.
    """
    size, longer = divmod(len(nodes), count)
    ends = [size * number + min(number, longer) for number in range(count + 1)]
    return [tuple(nodes[ends[number] : ends[number + 1]]) for number in range(count)]


def _make_block_topology(parts: Sequence[tuple[str, ...]]) -> DevTopology:
    blocks = {f"block{number}": part for number, part in enumerate(parts, 1)}
    # Each block must have at least the nodes of the smallest size.
    size = min(map(len, parts))
    sizes = [str(size * factor) for factor in (1, 2, 4) if factor <= len(parts)]
    lines = [f"BlockName={name} Nodes={compress_hostlist(part)}" for name, part in blocks.items()]
    lines.append(f"BlockSizes={','.join(sizes)}")
    return DevTopology(plugin="block", text="\n".join(lines) + "\n", leaves=blocks)


def from_file(path: Path, nodes: Sequence[str]) -> DevTopology:
    """Return the topology in a ``topology.conf`` or ``topology.yaml`` whose nodes are some or all of
    ``nodes``.

    Raises:
        InvalidInput: the file cannot be read, or names a node that the cluster does not have.
    """
    try:
        part = SlurmFileTopology().read(path)
        tree = combine_parts([part]).tree
    except TopologyError as error:
        raise InvalidInput(f"--topology: {error}") from error
    leaf_of = {} if tree is None else tree.leaf_of
    unknown = [name for name in leaf_of if name not in set(nodes)]
    if unknown:
        more = "" if len(unknown) <= _MOST_SHOWN else f" and {len(unknown) - _MOST_SHOWN} more"
        raise InvalidInput(
            f"--topology: {path} names nodes that the cluster does not have: "
            f"{compress_hostlist(unknown[:_MOST_SHOWN])}{more}. "
            f"The nodes of this cluster are {compress_hostlist(nodes)}; --nodes changes their number."
        )
    text = path.read_text(encoding="utf-8-sig")
    yaml = path.suffix in (".yaml", ".yml")
    leaves = {
        switch.name: switch.nodes
        for switch in part.switches
        if switch.nodes and not switch.switches
    }
    blocks = not yaml and not any(
        line.lstrip().lower().startswith("switchname=") for line in text.splitlines()
    )
    return DevTopology(
        file="topology.yaml" if yaml else "topology.conf",
        plugin="block" if blocks else "tree",
        text=text,
        leaves=leaves,
    )
