"""A topology as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.node_topology import NodeTopology
from aitne_train.topology.switch_tree import SourceLine, Switch, TopologyTree
from aitne_train.topology.topology_parts import Topology


def format_topology(topology: Topology) -> Iterator[str]:
    """Yield the lines that describe a topology, each level indented by two columns."""
    if topology.tree is not None:
        yield from _format_switch_lines(topology.tree)
    for name, node in topology.nodes.items():
        yield f"{name}  ({node.source})"
        for numa in node.numa_nodes:
            near = [device.name for device in (*node.gpus, *node.nics) if device.numa == numa.index]
            yield f"  NUMA node {numa.index}: {len(numa.cpus)} CPUs  {' '.join(near)}".rstrip()
        for gpu in range(len(node.gpus)):
            nic = node.find_nearest_nic(gpu)
            links = sorted(_count_links(node, gpu).items())
            text = " ".join(f"{kind}:{count}" for kind, count in links)
            yield f"  {node.gpus[gpu].name}  {text}" + (f"  nearest {nic.name}" if nic else "")


def find_switch_tree(found: dict[str, Any]) -> TopologyTree | None:
    """Return the tree of switches in an answer of the platform, with those nodes that the scheduler
    has; None if it has no switches. Switches without such nodes are left out."""
    nodes: dict[str, list[str]] = {}
    for node in found["nodes"]:
        nodes.setdefault(node["switch"], []).append(node["name"])
    parents = {each["name"]: each["parent"] for each in found["switches"]}
    kept: set[str] = set()
    for leaf in parents.keys() & nodes.keys():
        above: str | None = leaf
        while above is not None and above not in kept:
            kept.add(above)
            above = parents[above]
    below: dict[str | None, list[str]] = {}
    for name, parent in parents.items():
        if name in kept:
            below.setdefault(parent, []).append(name)
    switches = [
        Switch(
            each["name"],
            SourceLine(each["source"], 0),
            tuple(below.get(each["name"], ())),
            tuple(nodes.get(each["name"], ())),
        )
        for each in found["switches"]
        if each["name"] in kept
    ]
    return TopologyTree(switches) if switches else None


def format_cluster(found: dict[str, Any], tree: TopologyTree | None) -> Iterator[str]:
    """Yield the lines that describe the topology in an answer of the platform."""
    if tree is not None:
        yield from _format_switch_lines(tree)
    if found["unknown_nodes"]:
        yield f"(not known)  {compress_hostlist(found['unknown_nodes'])}"
    for node in found["nodes"]:
        for numa in node["numa_nodes"] or ():
            gpus = " ".join(f"GPU{index}" for index in numa["gpus"])
            yield f"{node['name']}  NUMA node {numa['index']}: CPUs {numa['cpus']}  {gpus}".rstrip()


def _format_switch_lines(tree: TopologyTree) -> Iterator[str]:
    waiting = list(reversed(tree.roots))
    while waiting:
        name = waiting.pop()
        switch = tree.switches[name]
        indent = "  " * (len(tree.find_path(name)) - 1)
        nodes = f"  {compress_hostlist(switch.nodes)}" if switch.nodes else ""
        yield f"{indent}{name}{nodes}"
        waiting += reversed(switch.switches)


def _count_links(node: NodeTopology, gpu: int) -> dict[str, int]:
    """Return how many links of each kind a GPU has to other GPUs."""
    counts: dict[str, int] = {}
    for other in node.gpus:
        kind = node.links.get((node.gpus[gpu].name, other.name))
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def make_document(topology: Topology) -> dict[str, Any]:
    """Return a topology as JSON, with the source of each edge."""
    tree = topology.tree
    switches = []
    for name, switch in ({} if tree is None else tree.switches).items():
        source = None if tree is None else tree.find_source(name)
        switches.append(
            {
                "name": name,
                "parent": None if tree is None else tree.parents.get(name),
                "nodes": list(switch.nodes),
                "source": None if source is None else str(source),
                "nodes_source": str(switch.source) if switch.nodes else None,
            }
        )
    return {
        "switches": switches,
        "nodes": [_make_node_document(name, node) for name, node in topology.nodes.items()],
    }


def _make_node_document(name: str, node: NodeTopology) -> dict[str, Any]:
    return {
        "name": name,
        "source": node.source,
        "numa_nodes": [{"index": each.index, "cpus": list(each.cpus)} for each in node.numa_nodes],
        "gpus": [_make_device_document(each) for each in node.gpus],
        "nics": [_make_device_document(each) for each in node.nics],
        "links": [
            {"from": one, "to": other, "kind": kind} for (one, other), kind in node.links.items()
        ],
    }


def _make_device_document(device: Any) -> dict[str, Any]:
    return {"name": device.name, "pci": device.pci, "numa": device.numa}
