"""Parts of a topology, as sources deliver them, and their combination."""

from __future__ import annotations

from dataclasses import dataclass, field

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import merge_node
from aitne_train.topology.switch_tree import merge_trees

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne_train.topology.node_topology import NodeTopology
    from aitne_train.topology.switch_tree import Switch, TopologyTree


@dataclass(frozen=True)
class TopologyPart:
    """Part of a topology that one source describes."""

    switches: tuple[Switch, ...] = ()
    """Switches of the cluster; empty: the source does not describe the network."""
    nodes: tuple[NodeTopology, ...] = ()
    """Topologies of single nodes; empty: the source does not describe nodes."""


@dataclass(frozen=True)
class Topology:
    """Everything that is known about the topology of a cluster."""

    tree: TopologyTree | None = None
    """Tree of switches; None: no source describes one."""
    nodes: Mapping[str, NodeTopology] = field(default_factory=dict)
    """Topologies of single nodes by their names."""


def combine_parts(parts: Sequence[TopologyPart]) -> Topology:
    """Merge the topologies of several sources. A node description without a name is assigned to the
    only named node, or to ``localhost`` if no node is named.

    Raises:
        TopologyError: the sources contradict each other, do not form one tree, or a description
            without a name could belong to several nodes.
    """
    trees = [part.switches for part in parts if part.switches]
    tree = merge_trees(trees) if trees else None
    by_name: dict[str, list[NodeTopology]] = {}
    described = [node for part in parts for node in part.nodes]
    names = list(dict.fromkeys(node.name for node in described if node.name))
    for node in described:
        if node.name is None and len(names) > 1:
            raise TopologyError(
                f"{node.source} does not say which of {len(names)} nodes it describes",
                "Read it together with the other files of this node only.",
            )
        by_name.setdefault(node.name or (names[0] if names else "localhost"), []).append(node)
    return Topology(tree, {name: merge_node(each) for name, each in by_name.items()})
