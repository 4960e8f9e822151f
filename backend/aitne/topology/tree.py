"""The tree of switches, or of blocks, that connects the nodes of a cluster.

A leaf is a switch that nodes are connected to. Every other switch connects switches. The uplink of
a switch connects it to its parent.
"""

from __future__ import annotations

from dataclasses import dataclass

from aitne.topology.errors import TopologyError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterable, Mapping, Sequence

MAX_NODES = 200_000
"""Maximum number of nodes of a topology."""
_MOST_SHOWN = 8
MAX_LEVELS = 16
"""Maximum number of switches on a path from the root to a leaf."""


@dataclass(frozen=True)
class SourceLine:
    """Line of a file or of a command's output that declares a part of a topology."""

    file: str
    """Name of the file or command."""
    line: int
    """Number of the line, from 1."""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    def error(self, problem: str, remedy: str) -> TopologyError:
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
    """An immutable tree of switches and nodes.

    Args:
        switches: all switches; the order of a switch's children is kept.

    Raises:
        TopologyError: the switches do not form one tree in which every node is on one leaf.
    """

    def __init__(self, switches: Iterable[Switch]) -> None:
        self.switches: Mapping[str, Switch] = _by_name(switches)
        """Switches by name, in the order of their declaration."""
        self.leaf_of: Mapping[str, str] = _leaves(self.switches)
        """Name of the leaf of each node."""
        self.parents: Mapping[str, str] = _parents(self.switches)
        """Name of the parent of each switch; the root has none."""
        self.root: str = _root(self.switches, self.parents)
        self._paths = _paths(self.switches, self.root)

    def path(self, switch: str) -> tuple[str, ...]:
        """Return the names of the switches on the path from the root to ``switch``, including both.
        Raises ``KeyError`` if the tree does not contain ``switch``."""
        return self._paths[switch]

    def common_ancestor(self, first: str, second: str) -> str:
        """Return the lowest switch that is above, or equal to, both switches."""
        common = self.root
        for one, other in zip(self._paths[first], self._paths[second]):  # noqa: B905 (3.9)
            if one != other:
                break
            common = one
        return common

    def source_of(self, name: str) -> SourceLine | None:
        """Return the line that declares the parent of a switch or node; None for the root and for
        unknown names."""
        parent = self.leaf_of.get(name) or self.parents.get(name)
        return None if parent is None else self.switches[parent].source

    def unknown(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes that the tree does not contain, in the given order."""
        return [node for node in nodes if node not in self.leaf_of]


def _by_name(switches: Iterable[Switch]) -> dict[str, Switch]:
    by_name: dict[str, Switch] = {}
    for switch in switches:
        earlier = by_name.get(switch.name)
        if earlier is not None:
            raise switch.source.error(
                f"the switch {switch.name} is defined again; the first definition is in {earlier.source}",
                "Define each switch once.",
            )
        if not switch.nodes and not switch.switches:
            raise switch.source.error(
                f"the switch {switch.name} has no nodes and no switches",
                "Add Nodes= or Switches=, or remove the switch.",
            )
        if switch.nodes and switch.switches:
            raise switch.source.error(
                f"the switch {switch.name} has nodes and switches",
                "Give each switch either Nodes= or Switches=.",
            )
        by_name[switch.name] = switch
    return by_name


def _leaves(switches: Mapping[str, Switch]) -> dict[str, str]:
    leaf_of: dict[str, str] = {}
    for switch in switches.values():
        for node in switch.nodes:
            if node in leaf_of:
                other = switches[leaf_of[node]]
                raise switch.source.error(
                    f"the node {node} is on {switch.name} twice"
                    if other is switch
                    else f"the node {node} is on two leaves, {other.name} ({other.source}) and {switch.name}",
                    "List each node on one leaf only.",
                )
            leaf_of[node] = switch.name
    return leaf_of


def _parents(switches: Mapping[str, Switch]) -> dict[str, str]:
    parents: dict[str, str] = {}
    for switch in switches.values():
        for child in switch.switches:
            if child not in switches:
                raise switch.source.error(
                    f"the switch {child} below {switch.name} is not defined",
                    f"Add a definition of {child}, or remove it here.",
                )
            if child in parents:
                raise switch.source.error(
                    f"the switch {child} is below two switches, {parents[child]} "
                    f"({switches[parents[child]].source}) and {switch.name}",
                    "List each switch below one other switch only.",
                )
            parents[child] = switch.name
    return parents


def _root(switches: Mapping[str, Switch], parents: Mapping[str, str]) -> str:
    if not switches:
        raise TopologyError(
            "the topology has no switch", "Add a switch with nodes, or use no topology."
        )
    roots = [name for name in switches if name not in parents]
    if len(roots) > 1:
        raise switches[roots[1]].source.error(
            f"{roots[1]} is a second root beside {roots[0]} ({switches[roots[0]].source})",
            f"Add a switch that connects them: SwitchName=core Switches={','.join(roots[:3])}"
            f"{',...' if len(roots) > 3 else ''}.",
        )
    if roots:
        return roots[0]
    raise _cycle(switches, parents, next(iter(switches)))


def _cycle(switches: Mapping[str, Switch], parents: Mapping[str, str], start: str) -> TopologyError:
    """Return the error for a cycle of switches. ``start`` is a switch whose ancestors form it."""
    path = {start: None}
    last = start
    while parents[last] not in path:
        last = parents[last]
        path[last] = None
    cycle = list(path)[list(path).index(parents[last]) :]
    shown = [*cycle, cycle[0]] if len(cycle) <= _MOST_SHOWN else [*cycle[:_MOST_SHOWN], "..."]
    return switches[cycle[0]].source.error(
        f"the switches form a cycle: {' < '.join(shown)}",
        f"Remove {cycle[-1]} from the switches below {cycle[0]}.",
    )


def _paths(switches: Mapping[str, Switch], root: str) -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {root: (root,)}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        path = paths[name]
        if len(path) > MAX_LEVELS:
            raise switches[name].source.error(
                f"the switch {name} is more than {MAX_LEVELS} levels below the root",
                "Check the switches above it.",
            )
        for child in switches[name].switches:
            paths[child] = (*path, child)
            waiting.append(child)
    if len(paths) < len(switches):
        outside = next(name for name in switches if name not in paths)
        raise _cycle(switches, _parents(switches), outside)
    return paths


def merged(parts: Sequence[Sequence[Switch]]) -> TopologyTree:
    """Merge the switches of several sources into one tree. Several sources may declare the same
    switch, with the same children; the first declaration is kept.

    Raises:
        TopologyError: sources contradict each other, or the switches do not form one tree.
    """
    first: dict[str, Switch] = {}
    for number, part in enumerate(parts):
        earlier = dict(first)
        for switch in part:
            known = earlier.get(switch.name) if number else None
            if known is None:
                if switch.name in first:
                    _by_name([first[switch.name], switch])
                first[switch.name] = switch
            elif (set(known.switches), set(known.nodes)) != (
                set(switch.switches),
                set(switch.nodes),
            ):
                raise switch.source.error(
                    f"the switch {switch.name} differs from its definition in {known.source}",
                    "Correct one of the two, or use one source only.",
                )
    return TopologyTree(first.values())
