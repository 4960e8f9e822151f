"""The placement of a job in its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aitne.cli import output
from aitne_train.topology.hostlist import compress_hostlist

_DEFAULTS = {"compact": "off", "order": "auto", "bind": "auto"}


def format_placement_options(options: Mapping[str, Any]) -> str:
    """Return the fields of the section ``placement`` that are set as text."""
    parts = []
    for name, value in options.items():
        if not value or value == _DEFAULTS.get(name):
            continue
        if name == "wait":
            value = output.format_duration(value)
        elif isinstance(value, Mapping):
            value = " x ".join(f"{size} {dimension}" for dimension, size in value.items())
        elif not isinstance(value, str):
            value = " ".join(value)
        parts.append(f"{name} {value}")
    return ", ".join(parts)


def list_placement_facts(placement: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield the rows of a plan's table about the nodes on which the job would run."""
    if not placement:  # none, or the platform is an earlier release
        return
    if limit := placement["max_leaves"]:
        wait_s = placement["max_leaves_wait_s"]
        longest = "" if wait_s is None else f" for {output.format_duration(wait_s)}"
        yield "Waits for", f"{_format_leaf_count(limit)}{longest}"
    if placement["nodes"]:
        yield "Nodes now", compress_hostlist(placement["nodes"])
        yield "Leaves", _format_leaf_uses(placement["leaves"])
    if placement["order"]:
        yield "Rank order", compress_hostlist(placement["order"])
    for name, title in (("crossings", "Crossings"), ("busiest_uplink", "Busiest uplink")):
        cost = placement[name]
        if cost is not None and (cost["given"] or cost["chosen"]):
            chosen = "" if cost["chosen"] is None else f", {cost['chosen']} in the rank order"
            yield title, f"{cost['given']} by name{chosen}"
    yield "Reason", placement["reason"]
    for other in placement["alternatives"]:
        wait = f", after {output.format_duration(int(other['wait_s']))}" if other["wait_s"] else ""
        yield "Alternative", f"{_format_leaf_uses(other['leaves'])}{wait}"
    for change in placement["changes"]:
        yield "Alternative", change


def _format_leaf_count(count: int) -> str:
    return "nodes on one leaf" if count == 1 else f"nodes on at most {count} leaves"


def _format_leaf_uses(leaves: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{leaf['name']} ({leaf['nodes']})" for leaf in leaves)
