"""Random topologies for tests and benchmarks."""

from __future__ import annotations

from random import Random

from aitne_train.topology.switch_tree import SourceLine, Switch, TopologyTree

_LINE = SourceLine("random", 1)


def random_tree(draw: Random, nodes: int, *, max_switches: int = 6) -> TopologyTree:
    """Return a tree of ``nodes`` nodes ``n0``, ``n1``, … on leaves at random depths."""
    leaves = draw.randint(1, min(nodes, max_switches))
    names = [f"n{number}" for number in range(nodes)]
    draw.shuffle(names)
    members: list[list[str]] = [[name] for name in names[:leaves]]
    for name in names[leaves:]:
        draw.choice(members).append(name)
    switches = [
        Switch(f"leaf{number}", _LINE, nodes=tuple(each)) for number, each in enumerate(members)
    ]
    top = [switch.name for switch in switches]
    while len(top) > 1:
        count = draw.randint(2, len(top))
        draw.shuffle(top)
        name = f"switch{len(switches)}"
        switches.append(Switch(name, _LINE, switches=tuple(top[:count])))
        top = [*top[count:], name]
    return TopologyTree(switches)


def regular_tree(leaves: int, nodes_per_leaf: int, leaves_per_pod: int) -> TopologyTree:
    """Return a tree of three levels whose node names are cyclic over the leaves."""
    width = len(str(leaves * nodes_per_leaf - 1))
    switches = [
        Switch(
            f"leaf{leaf}",
            _LINE,
            nodes=tuple(f"n{leaf + leaves * number:0{width}}" for number in range(nodes_per_leaf)),
        )
        for leaf in range(leaves)
    ]
    pods = []
    for start in range(0, leaves, leaves_per_pod):
        below = tuple(f"leaf{leaf}" for leaf in range(start, min(start + leaves_per_pod, leaves)))
        pods.append(Switch(f"pod{start // leaves_per_pod}", _LINE, switches=below))
    core = Switch("core", _LINE, switches=tuple(pod.name for pod in pods))
    return TopologyTree([*switches, *pods, core])
