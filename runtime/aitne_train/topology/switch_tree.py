"""The tree of switches, or of blocks, that connects the nodes of a cluster.

A leaf is a switch that nodes are connected to. Every other switch connects switches. The uplink of
a switch connects it to its parent. A cluster may have several fabrics, each with a tree of its own,
which no switch connects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from aitne_train.topology.errors import TopologyError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterable, Mapping, Sequence

MAX_NODES = 200_000
"""Maximum number of nodes of a topology."""
_MOST_SHOWN = 8
MAX_LEVELS = 22
"""Maximum number of switches on a path from a root to a leaf; Slurm reads that many in any order."""
_ONE_SOURCE = "Correct one of the two, or use one source only."
_ADDRESS = re.compile(r"[0-9.]+", re.ASCII)


@dataclass(frozen=True)
class SourceLine:
    """Line of a file or of a command's output that declares a part of a topology."""

    file: str
    """Name of the file or command."""
    line: int
    """Number of the line, from 1."""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    def make_error(self, problem: str, remedy: str) -> TopologyError:
        """Return a ``TopologyError`` with this file and line.

        Args:
            problem: what is wrong, without a full stop.
            remedy: what to do, as a sentence.
        """
        return TopologyError(problem, remedy, file=self.file, line=self.line)


@dataclass(frozen=True)
class Switch:
    """A switch or block as a source declares it, with either the switches or the nodes below it."""

    name: str
    """Name of the switch or block."""
    source: SourceLine
    """Line that declares it."""
    switches: tuple[str, ...] = ()
    """Names of the switches directly below it; empty for a leaf."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes connected to it; empty except for a leaf."""
    is_block: bool = False
    """Whether it is a Slurm block, or an aggregate of several blocks."""


class TopologyTree:
    """An immutable tree of switches and nodes, or several of them.

    It accepts what Slurm accepts. A node on several leaves is on the first of them, a switch below
    several switches is below the first, and switches may have nothing below them.

    Args:
        switches: all switches; the order of a switch's children is kept.

    Raises:
        TopologyError: a switch is defined twice, not defined or part of a cycle, or there is no
            node.
    """

    def __init__(self, switches: Iterable[Switch]) -> None:
        declared = _index_by_name(switches)
        _check_children(declared)
        self.leaf_of: Mapping[str, str] = _find_first_switches(declared, "nodes")
        """Name of the leaf of each node."""
        self.parents: Mapping[str, str] = _find_first_switches(declared, "switches")
        """Name of the parent of each switch; roots have none."""
        self.switches: Mapping[str, Switch] = {
            switch.name: _keep_own_children(switch, self.leaf_of, self.parents)
            for switch in declared.values()
        }
        """Switches by name, in the order of their declaration; each node and each switch is below
        one switch only."""
        self.roots: tuple[str, ...] = tuple(name for name in declared if name not in self.parents)
        """Names of the switches that are below no other switch."""
        self._paths = _compute_paths(self.switches, self.roots)
        self.fabrics: tuple[str, ...] = self._list_fabrics()
        """Names of those roots that have nodes below them."""
        self.notes: tuple[str, ...] = tuple(_list_notes(declared, self))
        """Sentences about what may be a mistake, as Slurm writes them to its log."""
        self._full_names: dict[str, str | None] | None = None

    def find_path(self, switch: str) -> tuple[str, ...]:
        """Return the names of the switches on the path from the root to ``switch``, including both.
        Raises ``KeyError`` if the tree does not contain ``switch``."""
        return self._paths[switch]

    def find_common_ancestor(self, first: str, second: str) -> str | None:
        """Return the lowest switch that is above, or equal to, both switches; None if they belong
        to different fabrics."""
        common = None
        for one, other in zip(self._paths[first], self._paths[second]):  # noqa: B905 (3.9)
            if one != other:
                break
            common = one
        return common

    def find_source(self, name: str) -> SourceLine | None:
        """Return the line that declares the parent of a switch or node; None for a root and for
        unknown names."""
        parent = self.leaf_of.get(name) or self.parents.get(name)
        return None if parent is None else self.switches[parent].source

    def find_node_name(self, name: str) -> str | None:
        """Return the name that the tree has for a node; None if it does not contain the node.

        A name with a domain and one without are the same node, unless the tree has several nodes
        with that name in different domains.
        """
        if name in self.leaf_of:
            return name
        short = shorten_name(name)
        if short != name:
            return short if short in self.leaf_of else None
        if self._full_names is None:
            self._full_names = _index_by_short_name(self.leaf_of)
        return self._full_names.get(name)

    def find_leaf(self, node: str) -> str | None:
        """Return the name of the leaf of a node, whose name may have a domain or not; None if the
        tree does not contain it."""
        name = self.find_node_name(node)
        return None if name is None else self.leaf_of[name]

    def list_unknown(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes that the tree does not contain, in the given order."""
        return [node for node in nodes if self.find_node_name(node) is None]

    def _list_fabrics(self) -> tuple[str, ...]:
        with_nodes = {self._paths[leaf][0] for leaf in self.leaf_of.values()}
        return tuple(root for root in self.roots if root in with_nodes)


def shorten_name(name: str) -> str:
    """Return the name of a node without its domain. An IP address has none."""
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0]


def _index_by_short_name(names: Iterable[str]) -> dict[str, str | None]:
    """Return each name by its short name; None for a short name that several have."""
    found: dict[str, str | None] = {}
    for name in names:
        short = shorten_name(name)
        found[short] = None if short in found else name
    return found


def _index_by_name(switches: Iterable[Switch]) -> dict[str, Switch]:
    by_name: dict[str, Switch] = {}
    for switch in switches:
        earlier = by_name.get(switch.name)
        if earlier is not None:
            raise switch.source.make_error(
                f"the switch {switch.name} is defined again; the first definition is in {earlier.source}",
                "Define each switch once.",
            )
        if switch.nodes and switch.switches:
            raise switch.source.make_error(
                f"the switch {switch.name} has nodes and switches",
                "Give each switch either Nodes= or Switches=.",
            )
        by_name[switch.name] = switch
    return by_name


def _find_first_switches(switches: Mapping[str, Switch], below: str) -> dict[str, str]:
    """Return the first switch above each node (``below`` is ``nodes``) or switch (``switches``)."""
    above: dict[str, str] = {}
    for switch in switches.values():
        for name in getattr(switch, below):
            above.setdefault(name, switch.name)
    return above


def _keep_own_children(
    switch: Switch, leaf_of: Mapping[str, str], parents: Mapping[str, str]
) -> Switch:
    """Return a switch without the nodes and switches that are below another one."""
    nodes = tuple(dict.fromkeys(node for node in switch.nodes if leaf_of[node] == switch.name))
    below = tuple(dict.fromkeys(each for each in switch.switches if parents[each] == switch.name))
    if len(nodes) == len(switch.nodes) and len(below) == len(switch.switches):
        return switch
    return replace(switch, nodes=nodes, switches=below)


def _check_children(switches: Mapping[str, Switch]) -> None:
    """Raise ``TopologyError`` if a switch is not defined or part of a cycle, or there is no node."""
    parents: dict[str, list[str]] = {}
    for switch in switches.values():
        for child in switch.switches:
            if child not in switches:
                raise switch.source.make_error(
                    f"the switch {child} below {switch.name} is not defined",
                    f"Add a definition of {child}, or remove it here.",
                )
            parents.setdefault(child, []).append(switch.name)
    if not switches:
        raise TopologyError(
            "the topology has no switch", "Add a switch with nodes, or use no topology."
        )
    above = {name: len(parents.get(name, ())) for name in switches}
    waiting = [name for name, count in above.items() if not count]
    while waiting:
        name = waiting.pop()
        del above[name]
        for child in switches[name].switches:
            above[child] -= 1
            if not above[child]:
                waiting.append(child)
    if above:
        raise _describe_cycle(switches, parents, above)
    if not any(switch.nodes for switch in switches.values()):
        switch = next(iter(switches.values()))
        raise switch.source.make_error(
            f"the switch {switch.name} has no nodes, nor has any other", "Add Nodes= to a switch."
        )


def _describe_cycle(
    switches: Mapping[str, Switch], parents: Mapping[str, Sequence[str]], inside: Iterable[str]
) -> TopologyError:
    """Return the error for a cycle of switches. ``inside`` are the switches that are in a cycle or
    below one."""
    remaining = dict.fromkeys(inside)
    last = next(iter(remaining))
    path: dict[str, None] = {}
    while last not in path:
        path[last] = None
        last = next(parent for parent in parents[last] if parent in remaining)
    cycle = list(path)[list(path).index(last) :]
    shown = [*cycle, cycle[0]] if len(cycle) <= _MOST_SHOWN else [*cycle[:_MOST_SHOWN], "..."]
    return switches[cycle[0]].source.make_error(
        f"the switches form a cycle: {' < '.join(shown)}",
        f"Remove {cycle[-1]} from the switches below {cycle[0]}.",
    )


def _compute_paths(
    switches: Mapping[str, Switch], roots: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {root: (root,) for root in roots}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        path = paths[name]
        if len(path) > MAX_LEVELS:
            raise switches[name].source.make_error(
                f"the switch {name} is more than {MAX_LEVELS} levels below the root",
                "Check the switches above it.",
            )
        for child in switches[name].switches:
            paths[child] = (*path, child)
            waiting.append(child)
    return paths


def _list_notes(declared: Mapping[str, Switch], tree: TopologyTree) -> Iterable[str]:
    nodes = _list_other_children(declared, "nodes", tree.leaf_of)
    if nodes:
        yield f"Several leaves have {_format_names(nodes)}: the first leaf counts."
    switches = _list_other_children(declared, "switches", tree.parents)
    if switches:
        yield f"Several switches have {_format_names(switches)} below them: the first switch counts."
    if len(tree.fabrics) > 1:
        yield f"{describe_unconnected(tree.fabrics)}: jobs do not span them."


def describe_unconnected(fabrics: Sequence[str]) -> str:
    """Return a sentence, without a full stop, that names fabrics by their roots."""
    return f"No switch connects {_format_names(fabrics)}"


def _list_other_children(
    declared: Mapping[str, Switch], below: str, above: Mapping[str, str]
) -> list[str]:
    """Return the nodes or switches that a switch other than the first one has below it."""
    return list(
        dict.fromkeys(
            name
            for switch in declared.values()
            for name in getattr(switch, below)
            if above[name] != switch.name
        )
    )


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_SHOWN
    text = ", ".join(names[:_MOST_SHOWN])
    return text if more <= 0 else f"{text} and {more} more"


def merge_trees(parts: Sequence[Sequence[Switch]]) -> TopologyTree:
    """Merge the switches of several sources into one tree. Several sources may declare the same
    switch, with the same children; the first declaration is kept.

    Raises:
        TopologyError: sources contradict each other, or a source is invalid.
    """
    first: dict[str, Switch] = {}
    above: dict[str, Switch] = {}
    """The switch above each switch, and above each node by its short name."""
    for number, part in enumerate(parts):
        earlier = dict(first)
        for switch in part:
            known = earlier.get(switch.name) if number else None
            if known is None:
                if switch.name in first:
                    _index_by_name([first[switch.name], switch])
                _check_other_source(switch, above)
                first[switch.name] = switch
            elif (set(known.switches), set(known.nodes)) != (
                set(switch.switches),
                set(switch.nodes),
            ):
                raise switch.source.make_error(
                    f"the switch {switch.name} differs from its definition in {known.source}",
                    _ONE_SOURCE,
                )
        for switch in part:
            for name in (*map(_make_node_key, switch.nodes), *switch.switches):
                above.setdefault(name, switch)
    return TopologyTree(first.values())


def _make_node_key(node: str) -> str:
    return f"node {shorten_name(node)}"


def _check_other_source(switch: Switch, above: Mapping[str, Switch]) -> None:
    """Raise ``TopologyError`` if an earlier source has one of the switch's nodes or switches below
    another switch."""
    for node in switch.nodes:
        other = above.get(_make_node_key(node))
        if other is not None:
            raise switch.source.make_error(
                f"the node {node} is on {switch.name}, and on {other.name} in {other.source}",
                _ONE_SOURCE,
            )
    for child in switch.switches:
        other = above.get(child)
        if other is not None:
            raise switch.source.make_error(
                f"the switch {child} is below {switch.name}, and below {other.name} in {other.source}",
                _ONE_SOURCE,
            )
