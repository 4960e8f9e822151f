"""topology.conf and the output of scontrol: what is wrong, in which line, and what to do."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.slurm import format_conf, parse_conf, parse_shown_topology
from aitne_train.topology.switch_tree import TopologyTree

GOOD = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n"


def test_conf_is_read_with_comments_continued_lines_and_any_case() -> None:
    text = (
        "# the fabric\n\nswitchname=a nodes=n[1-2] LinkSpeed=100 # left\n"
        'SwitchName=b \\\n  Nodes="n[3-4]"\nSWITCHNAME=top Switches=a,b\n'
    )
    tree = TopologyTree(parse_conf(text, "t.conf"))
    assert dict(tree.leaf_of) == {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    assert tree.roots == tree.fabrics == ("top",)
    assert tree.notes == ()
    assert str(tree.find_source("n3")) == "t.conf, line 4"
    assert tree.find_common_ancestor("a", "b") == "top"
    assert tree.find_common_ancestor("a", "a") == "a"
    assert tree.list_unknown(["n9", "n1"]) == ["n9"]


def test_conf_text_is_read_as_the_same_tree() -> None:
    tree = TopologyTree(parse_conf(GOOD, "t"))
    assert format_conf(tree) == GOOD
    shown = (
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
    )
    blocks = TopologyTree(parse_conf(format_conf(TopologyTree(parse_shown_topology(shown))), "t"))
    assert dict(blocks.leaf_of) == {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", None, "no switch"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Switches=c\nSwitchName=c Switches=b\n", 2, "cycle"),
        ("SwitchName=b Switches=c\nSwitchName=c Switches=b\n", 1, "b < c < b|c < b < c"),
        ("SwitchName=a Switches=a\n", 1, "cycle"),
        ("SwitchName=a\n", 1, "no nodes, nor has any other"),
        (GOOD + "SwitchName=x Switches=top,y\nSwitchName=y Switches=x\n", 4, "x < y < x"),
        ("RingName=r Nodes=n[1-8]\n", 1, "rings, which are no tree"),
        ("SwitchName=a Nodes=\n", 1, "no nodes"),
        ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", 1, "nodes and switches"),
        (GOOD + "SwitchName=a Nodes=n9\n", 4, "defined again"),
        ("SwitchName=top Switches=a,b\nSwitchName=a Nodes=n1\n", 1, "b below top is not defined"),
        ("SwitchName=a Nodes=n[1-1000000000]\n", 1, "too long"),
        ("SwitchName=a Nodes=n[1-60000]\n" * 5, 4, "more than 200000 names"),
        ("SwitchName=a Nodes=n[1-", 1, "bracket"),
        (GOOD[:-12], 3, "is not a line|not defined|is not a value"),
        ("SwitchName=a Nodes=n1 Nodes=n2\n", 1, "given twice"),
        ("SwitchName=a Nodes=n1 Color=red\n", 1, "not a line of a topology"),
        ("hello world\n", 1, "not a value"),
        ("SwitchName=a,b Nodes=n1\n", 1, "not the name"),
        (GOOD + "BlockName=x Nodes=n9\n", 4, "switches and blocks"),
        ("BlockName=x Nodes=n1\nBlockSizes=4,6\n", 2, "sizes of blocks"),
        ("BlockName=x Nodes=n1\nBlockSizes=four\n", 2, "sizes of blocks"),
    ],
)
def test_conf_errors_name_the_line_and_end_with_a_remedy(
    text: str, line: int | None, problem: str
) -> None:
    with pytest.raises(TopologyError, match=problem) as caught:
        TopologyTree(parse_conf(text, "t"))
    if line is not None:
        assert str(caught.value).startswith(f"t, line {line}: ")
    assert str(caught.value).endswith(".")


FABRICS = (
    "SwitchName=eth Nodes=cpu[1-4]\n"
    "SwitchName=core Switches=ib1,ib2\nSwitchName=ib1 Nodes=gpu[1-2]\nSwitchName=ib2 Nodes=gpu[3-4]\n"
)


def test_file_with_two_fabrics_is_read_as_slurm_reads_it() -> None:
    tree = TopologyTree(parse_conf(FABRICS, "t"))
    assert tree.roots == tree.fabrics == ("eth", "core")
    assert tree.find_path("eth") == ("eth",)
    assert tree.find_path("ib2") == ("core", "ib2")
    assert tree.find_common_ancestor("ib1", "ib2") == "core"
    assert tree.find_common_ancestor("ib1", "eth") is None
    assert format_conf(tree) == FABRICS
    assert tree.notes == ("No switch connects eth, core: jobs do not span them.",)


@pytest.mark.parametrize(
    ("text", "leaves", "note"),
    [
        (
            GOOD + "SwitchName=c Nodes=n[4-5]\n",
            {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c"},
            "Several leaves have n4: the first leaf counts.",
        ),
        (
            GOOD + "SwitchName=spine Switches=a,b\n",
            {"n1": "a", "n2": "a", "n3": "b", "n4": "b"},
            "Several switches have a, b below them: the first switch counts.",
        ),
        ("SwitchName=a Nodes=n1,n1\nSwitchName=b\n", {"n1": "a"}, None),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=\n", {"n1": "a"}, None),
        ("BlockName=a Nodes=n1\nBlockName=b Nodes=n2\n", {"n1": "a", "n2": "b"}, None),
    ],
    ids=["two leaves", "two spines", "empty leaf", "empty list", "blocks"],
)
def test_topology_that_slurm_accepts_is_read(
    text: str, leaves: dict[str, str], note: str | None
) -> None:
    tree = TopologyTree(parse_conf(text, "t"))
    assert dict(tree.leaf_of) == leaves
    assert tree.notes[:1] == (() if note is None else (note,))
    again = TopologyTree(parse_conf(format_conf(tree), "t"))
    assert dict(again.leaf_of) == leaves


def test_nodes_are_the_same_with_and_without_a_domain() -> None:
    text = (
        "SwitchName=a Nodes=cn1.hpc.example.org,cn2\nSwitchName=b Nodes=cn3.x.example.org,cn3.y.example.org\n"
        "SwitchName=c Nodes=10.0.0.1\nSwitchName=top Switches=a,b,c\n"
    )
    tree = TopologyTree(parse_conf(text, "t"))
    assert (
        tree.find_leaf("cn1")
        == tree.find_leaf("cn1.hpc.example.org")
        == tree.find_leaf("cn2.example.org")
        == "a"
    )
    assert tree.find_node_name("cn1") == "cn1.hpc.example.org"
    assert tree.find_leaf("cn1.other.example.org") is None
    assert tree.find_leaf("cn3") is None  # it could be either
    assert tree.find_leaf("cn3.y.example.org") == "b"
    assert tree.find_leaf("10") is tree.find_leaf("10.0.0.2") is None
    assert tree.list_unknown(["cn1", "cn3", "cn2.example.org"]) == ["cn3"]


def test_tree_of_too_many_levels_is_refused() -> None:
    lines = ["SwitchName=s0 Nodes=n1"]
    lines += [f"SwitchName=s{level} Switches=s{level - 1}" for level in range(1, 40)]
    with pytest.raises(TopologyError, match="levels below the root"):
        TopologyTree(parse_conf("\n".join(lines), "t"))


def test_output_of_slurm_without_a_topology_is_no_tree() -> None:
    assert parse_shown_topology("No topology information available\n") == []


def test_output_with_unknown_values_is_read() -> None:
    (switch,) = parse_shown_topology("SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-2] Color=red \n")
    assert switch.nodes == ("n1", "n2")


NEARLY = st.lists(
    st.sampled_from(
        [
            *(
                "SwitchName=",
                "Nodes=",
                "Switches=",
                "BlockName=",
                "BlockSizes=",
                "AggregatedBlock=",
            ),
            *("a", "b", "n[1-3]", "[", "]", ",", "4,8", " ", " ", "\n", "\n", "#", "\\", '"', "é"),
        ]
    ),
    max_size=24,
).map("".join)


@given(text=st.one_of(NEARLY, st.text(max_size=60)))
def test_readers_raise_nothing_but_topology_errors(text: str) -> None:
    for read in (parse_conf, parse_shown_topology):
        with contextlib.suppress(TopologyError):
            TopologyTree(read(text, "t"))
