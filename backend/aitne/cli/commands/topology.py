"""``topology``: switches and nodes, and the order of ranks on them. No platform is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.options import Json
from aitne.cli.registry import LOOK, examples, group
from aitne.core.errors import InvalidInput

if TYPE_CHECKING:
    from aitne.topology.order import RankOrder
    from aitne.topology.parts import Topology

Files = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="File with the topology, or /sys; several are combined.",
    ),
]
_EXAMPLES = """
aitne topology order --file topology.conf --nodes 'gpu[00-07]'
aitne topology order --file topology.conf --nodes 'gpu[00-07]' --mesh tensor=8,data=8 --ranks-per-node 8
"""


@group("topology", LOOK)
def topologies() -> None:
    """Show the topology of the network in a file, and compute orders of ranks."""


@topologies.command("show", epilog=examples("aitne topology show --file topology.conf --svg t.svg"))
def topology_show(
    file: Files,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Write a picture of the switches.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Show the switches or blocks, the nodes below them, and what each node consists of.

    A file is a topology.conf or topology.yaml, the output of `scontrol show topology` or
    `nvidia-smi topo -m`, or an XML file of hwloc.
    """
    from aitne.cli.views import topology_svg, topology_tree

    topology = _read(file)
    if svg is not None:
        if topology.tree is None:
            raise _invalid("file: there are no switches to draw. Add a topology.conf.")
        Path(svg).write_text(topology_svg.draw(topology.tree), encoding="utf-8")
    if as_json:
        output.answer_json(topology_tree.document(topology))
    else:
        for line in topology_tree.lines(topology):
            typer.echo(output.plain(line))
    return 0


@topologies.command("order", epilog=examples(_EXAMPLES))
def topology_order(
    file: Files,
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="LIST", help="Nodes in the given order: gpu[00-07].")
    ],
    mesh: Annotated[
        str | None,
        typer.Option(
            "--mesh",
            metavar="SIZES",
            help="Dimensions of the ranks, innermost first: tensor=4,data=8. Default: one ring.",
        ),
    ] = None,
    ranks_per_node: Annotated[
        int, typer.Option("--ranks-per-node", min=1, max=1024, help="Ranks on each node.")
    ] = 1,
    as_json: Json = False,
) -> int:
    """Compute the order of nodes in which ranks cross the fewest uplinks."""
    from aitne.core.placement.mesh import parse_mesh
    from aitne.topology.errors import TopologyError
    from aitne.topology.hostlist import compress_hostlist, expand_hostlist
    from aitne.topology.order import rank_order

    topology = _read(file)
    if topology.tree is None:
        raise _invalid("file: there are no switches. Give a topology.conf, for example.")
    try:
        names = expand_hostlist(nodes)
        sizes = [] if mesh is None else list(parse_mesh(mesh).values())
        order = rank_order(topology.tree, names, mesh=sizes, ranks_per_node=ranks_per_node)
    except TopologyError as error:
        raise _invalid(str(error)) from error
    except ValueError as error:
        raise _invalid(f"{error}.") from error
    if not names:
        raise _invalid("nodes: the list names no node.")
    if as_json:
        output.answer_json(_document(order))
    else:
        output.say(f"aitne: {order.sentence()}")
        typer.echo(compress_hostlist(order.order))
    return 0


def _document(order: RankOrder) -> dict[str, Any]:
    return {
        "order": list(order.order),
        "crossings": {"given": order.given.crossings, "chosen": order.chosen.crossings},
        "busiest_uplink": {
            "given": order.given.busiest_uplink,
            "chosen": order.chosen.busiest_uplink,
        },
        "unknown": list(order.unknown),
    }


def _read(files: list[str]) -> Topology:
    from aitne.bootstrap.topologies import read_topology
    from aitne.topology.errors import TopologyError

    try:
        return read_topology([Path(file) for file in files])
    except TopologyError as error:
        raise _invalid(str(error)) from error


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message)
