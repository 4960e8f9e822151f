"""Placement of a job as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aitne.cli.views import topology_svg
from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.switch_tree import SourceLine, Switch, TopologyTree


def format_placement(placement: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a placement."""
    yield placement["reason"]
    yield f"given   {compress_hostlist(placement['given'])}"
    yield f"order   {compress_hostlist(placement['order'])}"
    for name, title in (("crossings", "crossings"), ("busiest_uplink", "busiest uplink")):
        costs = placement[name]
        if costs is not None:
            yield (
                f"{title}: given {costs['given']}, chosen {costs['chosen']}, best known {costs['best']}"
            )
    for number, node in enumerate(placement["order"]):
        leaf = placement["leaves"].get(node)
        yield f"{number:>4}  {node}" + (f"  {leaf}" if leaf else "")
        for bound in placement["bindings"]:
            if bound["node"] == node:
                yield f"      {_describe_binding(bound)}"


def _describe_binding(bound: Mapping[str, Any]) -> str:
    parts = [f"rank {bound['rank']}"]
    parts.append("not bound" if bound["cores"] is None else f"CPUs {bound['cores']}")
    for name, title in (("numa", "NUMA node"), ("gpu", "GPU"), ("nic", "interface")):
        if bound[name] is not None:
            parts.append(f"{title} {bound[name]}")
    return "  ".join(parts)


def draw_placement(placement: Mapping[str, Any]) -> str:
    """Return an SVG document with the switches above the job's nodes, and below each leaf its nodes
    with their numbers in the order of the ranks."""
    members: dict[str, list[str]] = {}
    for number, node in enumerate(placement["order"]):
        leaf = placement["leaves"].get(node)
        if leaf is not None:
            members.setdefault(leaf, []).append(f"{number}: {node}")
    source = SourceLine("the platform", 0)
    below: dict[str, list[str]] = {}
    for each in placement["switches"]:
        if each["parent"] is not None:
            below.setdefault(each["parent"], []).append(each["name"])
    tree = TopologyTree(
        Switch(
            each["name"],
            source,
            tuple(below.get(each["name"], ())),
            tuple(members.get(each["name"], ())),
        )
        for each in placement["switches"]
    )
    labels = {leaf: ", ".join(nodes) for leaf, nodes in members.items()}
    return topology_svg.draw_tree(tree, labels, title=placement["reason"])
