"""Slurm's configuration files ``topology.conf`` and ``topology.yaml``.

Format of the latter: https://slurm.schedmd.com/topology.yaml.html. Of several topologies in it, the
one with ``cluster_default: true`` is read, else the first. A switch with nodes and children is a
leaf, as Slurm reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from typing_extensions import override

from aitne.adapters.topologies._files import text_of
from aitne.core.ports.topology import TopologySource
from aitne.topology.errors import TopologyError
from aitne.topology.parts import TopologyPart
from aitne.topology.slurm import Names, above_blocks, block, block_sizes, read_conf
from aitne.topology.tree import SourceLine, Switch

_SUFFIXES = (".yaml", ".yml")
_LINE = re.compile(r"^\s*(SwitchName|BlockName|BlockSizes)=", re.MULTILINE | re.IGNORECASE)
_MAX_YAML_BYTES = 1 << 18
_MAX_DEPTH = 10
_KINDS = ("tree", "block")


class SlurmFileTopology(TopologySource):
    """Topology that an administrator has written for Slurm."""

    name = "slurm_file"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        shown = " Level=" in head or "BlockIndex=" in head  # by scontrol
        return path.suffix in _SUFFIXES or (_LINE.search(head) is not None and not shown)

    @override
    def read(self, path: Path) -> TopologyPart:
        if path.suffix in _SUFFIXES:
            return TopologyPart(tuple(_read_yaml(text_of(path, _MAX_YAML_BYTES), str(path))))
        return TopologyPart(tuple(read_conf(text_of(path), str(path))))


def _read_yaml(text: str, file: str) -> list[Switch]:
    try:
        _check_events(text, file)
        document = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        raise TopologyError(
            f"it is not valid YAML: {getattr(error, 'problem', None) or 'it cannot be read'}",
            "Correct the line; the file may be truncated.",
            file=file,
            line=None if mark is None else mark.line + 1,
        ) from error
    topologies = [_mapping(each, file) for each in _items(document, file)]
    if not topologies:
        raise TopologyError("it has no topology", "Add one with a tree or blocks.", file=file)
    default = [each for each in topologies if _is_true(each.get("cluster_default"))]
    chosen = (default or topologies)[0]
    kinds = [kind for kind in _KINDS if kind in chosen]
    if len(kinds) != 1:
        others = [key for key in chosen if key not in ("topology", "cluster_default", *_KINDS)]
        raise TopologyError(
            f"the topology {_text(chosen.get('topology')) or 'without a name'} has "
            f"{' and '.join(kinds or others) or 'no tree and no blocks'}",
            "Only a tree or blocks can be read. Without them ranks are numbered in the order that the "
            "scheduler gives.",
            file=file,
            line=next(iter(chosen.values())).start_mark.line + 1 if chosen else None,
        )
    content = _mapping(chosen[kinds[0]], file)
    return _tree(content, file) if kinds == ["tree"] else _blocks(content, file)


def _check_events(text: str, file: str) -> None:
    """Raise ``TopologyError`` if the YAML text has aliases, with which a small file could expand to
    a very large one, or is nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or depth > _MAX_DEPTH:
            raise TopologyError(
                "it has an alias" if depth <= _MAX_DEPTH else "it is nested too deeply",
                "Write the values out, as in Slurm's manual page topology.yaml.",
                file=file,
                line=None if event.start_mark is None else event.start_mark.line + 1,
            )


def _tree(content: Mapping[str, yaml.Node], file: str) -> list[Switch]:
    names = Names()
    switches = []
    for item in _items(content.get("switches"), file):
        values = _mapping(item, file)
        source = SourceLine(file, item.start_mark.line + 1)
        nodes = tuple(names.expand(_text(values.get("nodes")), source))
        below = () if nodes else tuple(names.expand(_text(values.get("children")), source))
        name = _name(values, "switch", source)
        switches.append(Switch(name, source, switches=below, nodes=nodes))
    return switches


def _blocks(content: Mapping[str, yaml.Node], file: str) -> list[Switch]:
    names = Names()
    blocks = []
    for item in _items(content.get("blocks"), file):
        values = _mapping(item, file)
        source = SourceLine(file, item.start_mark.line + 1)
        name = _name(values, "block", source)
        blocks.append(block(name, _text(values.get("nodes")), source, names))
    sizes: list[int] = []
    if "block_sizes" in content:
        node = content["block_sizes"]
        words = [_text(word) for word in _items(node, file)]
        sizes = block_sizes(words, SourceLine(file, node.start_mark.line + 1))
    return above_blocks(blocks, sizes)


def _name(values: Mapping[str, yaml.Node], key: str, source: SourceLine) -> str:
    name = _text(values.get(key))
    if not name or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise TopologyError(
            f"{name[:80]!r} is not the name of a {key}",
            f"Write `- {key}: NAME`.",
            file=source.file,
            line=source.line,
        )
    return name


def _items(node: yaml.Node | None, file: str) -> list[yaml.Node]:
    if node is None or not isinstance(node, yaml.SequenceNode):
        raise _wrong(node, "a list", file)
    return list(node.value)


def _mapping(node: yaml.Node, file: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _wrong(node, "keys with values", file)
    values: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _text(key)
        if name in values:
            raise TopologyError(
                f"the key {name} is given twice",
                "Give each key once.",
                file=file,
                line=key.start_mark.line + 1,
            )
        values[name] = value
    return values


def _is_true(node: yaml.Node | None) -> bool:
    """Return whether a value is true in YAML 1.1, which Slurm reads: its manual writes ``True``."""
    return _text(node).lower() in ("true", "yes", "on", "y")


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _wrong(node: yaml.Node | None, expected: str, file: str) -> TopologyError:
    return TopologyError(
        f"{expected} is expected here" if node is not None else f"{expected} is missing",
        "Write it as in Slurm's manual page topology.yaml.",
        file=file,
        line=None if node is None else node.start_mark.line + 1,
    )
