"""Tests of the reader of plain YAML, with which the launcher reads Slurm's ``topology.yaml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.topologies.slurm_file import SlurmFileTopology
from aitne_train.topology.errors import NoSwitchesError, TopologyError
from aitne_train.topology.plain_yaml import parse_yaml
from aitne_train.topology.slurm_yaml import parse_topology_yaml
from aitne_train.topology.switch_tree import Switch
from tests.support.topologies import ASSETS

MANUAL = (ASSETS / "slurm_file" / "several.yaml").read_text()
TREE = "- topology: a\n  tree:\n    switches:\n"
LEAVES = "    - switch: s1\n      nodes: n[1-2]\n    - switch: s2\n      nodes: n3\n"


def read(text: str) -> list[Switch]:
    return parse_topology_yaml(parse_yaml(text, "t.yaml"), "t.yaml")


@pytest.mark.parametrize(
    "text",
    [
        MANUAL,
        MANUAL.replace("\n", "\r\n"),
        "\ufeff" + MANUAL,
        "# Fabric\n\n" + MANUAL + "# end\n...\n",
        TREE + LEAVES,
        TREE + "    # leaves\n" + LEAVES.replace("n3", "n3   # the last"),
        TREE + LEAVES.replace("s1", "'s1'").replace("n[1-2]", '"n[1-2]"'),
        TREE.replace("  tree:\n", "  'tree': # of switches\n") + LEAVES,
        # Lists may be indented more, or not more, than their key; items may begin in the next line.
        TREE + LEAVES.replace("    - ", "        - ").replace("      nodes", "          nodes"),
        TREE + LEAVES.replace("    - ", "    -   ").replace("      nodes", "        nodes"),
        TREE
        + "    -\n      switch: s1\n      nodes: n1\n    - switch: s2\n      nodes:\n        n2\n",
        "- topology: a\n  tree: {switches: [{switch: s1, nodes: 'n[1-2]'}, {switch: s2, nodes: n3,}]}\n",
        '[{"topology": "a", "tree": {"switches": [\n  {"switch": "s1", "nodes": "n[1-2]"}, # one\n'
        '  {"switch":"s2",\n "nodes":"n3"}]}}]\n',
        "- topology: b\n  flat: True\n- topology: a\n  cluster_default: yes\n  block:\n"
        "    block_sizes: [2,\n      4]\n    blocks:\n    - block: b1\n      nodes: n[1-2]\n"
        "    - block: b2\n      nodes: n[3-4]\n",
        "- topology: a\n  tree:\n    switches:\n    - switch: s1\n      children: s2\n      nodes: n1\n"
        "    - switch: s2\n      nodes: n2\n      comment: it's #1, the 'last' one # of all\n      empty:\n",
    ],
    ids=range(15),
)
def test_plain_yaml_is_read_as_by_a_complete_parser(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(text.encode())
    with_parser = SlurmFileTopology().read(path).switches
    assert [(each.name, each.source.line, each.switches, each.nodes) for each in read(text)] == [
        (each.name, each.source.line, each.switches, each.nodes) for each in with_parser
    ]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (TREE + "      - switch: s1\n        nodes: n[1-\n", 4, "bracket"),
        (TREE + "      - switch: s1\n        switch: s2\n", 5, "switch is given twice"),
        (TREE + "      - {switch: s1, switch: s2}\n", 4, "switch is given twice"),
        (TREE + "      - &a {switch: s1, nodes: n1}\n", 4, "an anchor"),
        (TREE + "      - *a\n", 4, "an alias"),
        (TREE + "      - !!map {switch: s1}\n", 4, "a tag"),
        (TREE + "      - switch: s1\n        nodes: >-\n          n1\n", 5, "several lines"),
        (
            TREE + "      - switch: s1\n        nodes: n1,\n          n2\n",
            6,
            "'n2' is not expected",
        ),
        (TREE + "      - switch: s1\n       nodes: n1\n", 5, "'nodes: n1' is not expected"),
        (TREE + "      - switch: s1: s2\n", 4, "'s1: s2' is not expected"),
        (TREE + "      - switch: 's1\n", 4, "quotation mark"),
        (TREE + "      - switch: 's1' s2\n", 4, "' s2' is not expected"),
        (TREE + "\t- switch: s1\n", 4, "tab"),
        ("- topology: a\n  tree: [}\n", 2, "not valid YAML"),
        ("- topology: a\n  tree: {switches: [\n", 2, "not closed"),
        ("- topology: a\n---\n- topology: b\n", 2, "several documents"),
        ("- " * 40 + "a", 1, "nested too deeply"),
        ("[" * 40 + "]" * 40, 1, "nested too deeply"),
        ("{a: " * 40, 1, "nested too deeply"),
        ("topology: a\n", 1, "a list is expected"),
    ],
)
def test_unreadable_text_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem) as caught:
        read(text)
    assert f"t.yaml, line {line}: " in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_empty_file_has_no_list(text: str) -> None:
    with pytest.raises(TopologyError, match="a list is expected"):
        read(text)


def test_flat_topology_has_no_switches() -> None:
    with pytest.raises(NoSwitchesError, match="line 1: the topology a has flat"):
        read("- topology: a\n  flat: true\n")
