"""Reader of Slurm's ``topology.yaml``, with which Slurm 25.05 and later describe several topologies.

Format: https://slurm.schedmd.com/topology.yaml.html. The topology with ``cluster_default: true`` is
read, else the first. A switch with nodes and children is a leaf, as Slurm reads it.
"""

from __future__ import annotations

import re

from aitne_train.topology.errors import NoSwitchesError, TopologyError
from aitne_train.topology.plain_yaml import YamlNode
from aitne_train.topology.slurm import Names, add_blocks_above, build_block, parse_block_sizes
from aitne_train.topology.switch_tree import SourceLine, Switch

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

_KINDS = ("tree", "block")


def parse_topology_yaml(document: YamlNode, file: str) -> list[Switch]:
    """Return the switches or blocks of the default topology.

    Args:
        document: content of the file.
        file: name of the file, for error messages.

    Raises:
        NoSwitchesError: the topology is neither a tree nor blocks.
        TopologyError: the topology cannot be read; names the line.
    """
    topologies = [_read_mapping(each, file) for each in _read_items(document, file)]
    if not topologies:
        raise TopologyError("it has no topology", "Add one with a tree or blocks.", file=file)
    default = [each for each in topologies if _is_true(each.get("cluster_default"))]
    chosen = (default or topologies)[0]
    kinds = [kind for kind in _KINDS if kind in chosen]
    if len(kinds) != 1:
        others = [key for key in chosen if key not in ("topology", "cluster_default", *_KINDS)]
        error = TopologyError if kinds else NoSwitchesError
        raise error(
            f"the topology {_read_text(chosen.get('topology')) or 'without a name'} has "
            f"{' and '.join(kinds or others) or 'no tree and no blocks'}",
            "Only a tree or blocks can be read. Without them ranks are numbered in the order that the "
            "scheduler gives.",
            file=file,
            line=next(iter(chosen.values())).line if chosen else None,
        )
    content = _read_mapping(chosen[kinds[0]], file)
    return _parse_tree(content, file) if kinds == ["tree"] else _parse_blocks(content, file)


def _parse_tree(content: Mapping[str, YamlNode], file: str) -> list[Switch]:
    names = Names()
    switches = []
    for item in _read_items(content.get("switches"), file):
        values = _read_mapping(item, file)
        source = SourceLine(file, item.line)
        nodes = tuple(names.expand_hostlist(_read_text(values.get("nodes")), source))
        below = (
            ()
            if nodes
            else tuple(names.expand_hostlist(_read_text(values.get("children")), source))
        )
        name = _read_name(values, "switch", source)
        switches.append(Switch(name, source, switches=below, nodes=nodes))
    return switches


def _parse_blocks(content: Mapping[str, YamlNode], file: str) -> list[Switch]:
    names = Names()
    blocks = []
    for item in _read_items(content.get("blocks"), file):
        values = _read_mapping(item, file)
        source = SourceLine(file, item.line)
        name = _read_name(values, "block", source)
        blocks.append(build_block(name, _read_text(values.get("nodes")), source, names))
    sizes: list[int] = []
    if "block_sizes" in content:
        node = content["block_sizes"]
        words = [_read_text(word) for word in _read_items(node, file)]
        sizes = parse_block_sizes(words, SourceLine(file, node.line))
    return add_blocks_above(blocks, sizes)


def _read_name(values: Mapping[str, YamlNode], key: str, source: SourceLine) -> str:
    name = _read_text(values.get(key))
    if not name or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise source.make_error(
            f"{name[:80]!r} is not the name of a {key}", f"Write `- {key}: NAME`."
        )
    return name


def _read_items(node: YamlNode | None, file: str) -> Sequence[YamlNode]:
    if node is None or not isinstance(node.value, (list, tuple)):
        raise _make_error(node, "a list", file)
    return node.value


def _read_mapping(node: YamlNode, file: str) -> Mapping[str, YamlNode]:
    if not isinstance(node.value, dict):
        raise _make_error(node, "keys with values", file)
    return node.value


def _is_true(node: YamlNode | None) -> bool:
    """Return whether a value is true in YAML 1.1, which Slurm reads: its manual writes ``True``."""
    return _read_text(node).lower() in ("true", "yes", "on", "y")


def _read_text(node: YamlNode | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


def _make_error(node: YamlNode | None, expected: str, file: str) -> TopologyError:
    return TopologyError(
        f"{expected} is expected here" if node is not None else f"{expected} is missing",
        "Write it as in Slurm's manual page topology.yaml.",
        file=file,
        line=None if node is None else node.line,
    )
