"""The topology of the cluster as text."""

from __future__ import annotations

from typing import Any

from aitne.cli.views import topology_tree


def node(name: str, switch: str | None, **facts: Any) -> dict[str, Any]:
    return {"name": name, "switch": switch, "numa_nodes": None, **facts}


def test_topology_of_the_cluster_has_its_nodes_below_their_switches() -> None:
    found = {
        "switches": [
            {"name": "leaf0", "parent": "core", "kind": "switch", "source": "t.conf, line 1"},
            {"name": "leaf1", "parent": "core", "kind": "switch", "source": "t.conf, line 2"},
            {"name": "empty", "parent": "core", "kind": "switch", "source": "t.conf, line 3"},
            {"name": "core", "parent": None, "kind": "switch", "source": "t.conf, line 4"},
        ],
        "nodes": [
            node("n1", "leaf0", numa_nodes=[{"index": 0, "cpus": "0-3", "gpus": [0, 1]}]),
            node("n2", "leaf0"),
            node("n3", "leaf1"),
            node("n4", None),
        ],
        "unknown_nodes": ["n4"],
        "sources": [],
    }
    tree = topology_tree.find_switch_tree(found)
    assert list(topology_tree.format_cluster(found, tree)) == [
        "core",
        "  leaf0  n[1-2]",
        "  leaf1  n3",
        "(not known)  n4",
        "n1  NUMA node 0: CPUs 0-3  GPU0 GPU1",
    ]


def test_cluster_without_switches_has_no_tree() -> None:
    assert topology_tree.find_switch_tree({"switches": [], "nodes": [node("n1", None)]}) is None
