"""Slurm's configuration files ``topology.conf`` and ``topology.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from typing_extensions import override

from aitne.adapters.topologies._bounded_files import read_bounded_text
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.plain_yaml import MAX_DEPTH, YamlNode
from aitne_train.topology.slurm import parse_conf
from aitne_train.topology.slurm_yaml import parse_topology_yaml
from aitne_train.topology.topology_parts import TopologyPart

_SUFFIXES = (".yaml", ".yml")
_LINE = re.compile(r"^\s*(SwitchName|BlockName|BlockSizes)=", re.MULTILINE | re.IGNORECASE)
_MAX_YAML_BYTES = 1 << 18


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
            document = _parse_document(read_bounded_text(path, _MAX_YAML_BYTES), str(path))
            return TopologyPart(tuple(parse_topology_yaml(document, str(path))))
        return TopologyPart(tuple(parse_conf(read_bounded_text(path), str(path))))


def _parse_document(text: str, file: str) -> YamlNode:
    """Return the document in a YAML text. Raises ``TopologyError`` if it is not valid."""
    try:
        _check_no_aliases(text, file)
        document = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        raise TopologyError(
            f"it is not valid YAML: {getattr(error, 'problem', None) or 'it cannot be read'}",
            "Correct the line; the file may be truncated.",
            file=file,
            line=None if mark is None else mark.line + 1,
        ) from error
    return YamlNode("", 1) if document is None else _to_plain_value(document, file)


def _check_no_aliases(text: str, file: str) -> None:
    """Raise ``TopologyError`` if the YAML text has aliases, with which a small file could expand to
    a very large one, or is nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            raise TopologyError(
                "it has an alias" if depth <= MAX_DEPTH else "it is nested too deeply",
                "Write the values out, as in Slurm's manual page topology.yaml.",
                file=file,
                line=None if event.start_mark is None else event.start_mark.line + 1,
            )


def _to_plain_value(node: yaml.Node, file: str) -> YamlNode:
    """Return a YAML value without tags and positions. Raises ``TopologyError`` if a key is given
    twice.
    """
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return YamlNode(tuple(_to_plain_value(each, file) for each in node.value), line)
    if not isinstance(node, yaml.MappingNode):
        return YamlNode(str(node.value), line)
    values: dict[str, YamlNode] = {}
    for key, value in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
        if name in values:
            raise TopologyError(
                f"the key {name} is given twice",
                "Give each key once.",
                file=file,
                line=key.start_mark.line + 1,
            )
        values[name] = _to_plain_value(value, file)
    return YamlNode(values, line)
