"""``topology``: switches and nodes, and the order of ranks on them. Only the order of a job needs a
platform.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.shared_options import DataDir, Json, Url
from aitne.core.errors import InvalidInput

if TYPE_CHECKING:
    from aitne_train.topology.rank_order import RankOrder
    from aitne_train.topology.topology_parts import Topology

Files = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="File with the topology, or /sys; several are combined.",
    ),
]
_SHOW_EXAMPLES = """
aitne topology show
aitne topology show --file topology.conf --svg t.svg
aitne topology show --job my-training
aitne topology show --job 1a2b3c4d --json
"""
_EXAMPLES = """
aitne topology order --file topology.conf --nodes 'gpu[00-07]'
aitne topology order --file topology.conf --nodes 'gpu[00-07]' --mesh tensor=8,data=8 --ranks-per-node 8
"""


@group("topology", LOOK)
def topologies() -> None:
    """Show the topology of the cluster, and compute orders of ranks."""


@topologies.command("show", epilog=examples(_SHOW_EXAMPLES))
def topology_show(
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="File with the topology, or /sys; several are combined.",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="JOB",
            help="An id, its first 4 or more characters, or a name: the order of the job's ranks.",
            autocompletion=completion.complete_jobs,
        ),
    ] = None,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Write a picture of the switches.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the switches or blocks of the cluster, the nodes below them, and what each node consists
    of; with --file, those that files describe.

    A file is a topology.conf or topology.yaml, the output of `scontrol show topology` or
    `nvidia-smi topo -m`, a gres.conf, or an XML file of hwloc. With --job: the nodes of a job in the order of its
    ranks, what that order costs, and the CPUs that each rank is bound to.
    """
    from aitne.cli.views import topology_svg, topology_tree

    if file and job is not None:
        raise _make_invalid_error("Give either --file or --job.")
    if job is not None:
        return _print_job_placement(job, svg, as_json=as_json, url=url, data_dir=data_dir)
    if not file:
        return _print_cluster(svg, as_json=as_json, url=url, data_dir=data_dir)
    topology = _read_topology(file)
    if svg is not None:
        if topology.tree is None:
            raise _make_invalid_error("file: there are no switches to draw. Add a topology.conf.")
        Path(svg).write_text(topology_svg.draw_tree(topology.tree), encoding="utf-8")
    if as_json:
        output.print_json(topology_tree.make_document(topology))
    else:
        for line in topology_tree.format_topology(topology):
            typer.echo(output.to_single_line(line))
        for note in () if topology.tree is None else topology.tree.notes:
            output.print_message(note)
    return 0


def _print_cluster(svg: str | None, *, as_json: bool, url: str | None, data_dir: str | None) -> int:
    from aitne.cli.job_lookup import make_client
    from aitne.cli.views import topology_svg, topology_tree

    found = make_client(url, data_dir).nodes.topology()
    tree = topology_tree.find_switch_tree(found)
    if svg is not None:
        if tree is None:
            raise _make_invalid_error(
                "svg: no source describes the network of this cluster. An administrator can import a "
                "topology.conf with `aitne admin topology import`."
            )
        Path(svg).write_text(topology_svg.draw_tree(tree), encoding="utf-8")
    if as_json:
        output.print_json(found)
        return 0
    for line in topology_tree.format_cluster(found, tree):
        typer.echo(output.to_single_line(line))
    if tree is None:
        output.print_message("No source describes the network of this cluster.")
    return 0


def _print_job_placement(
    job: str, svg: str | None, *, as_json: bool, url: str | None, data_dir: str | None
) -> int:
    from aitne.cli.job_lookup import find_job, make_client
    from aitne.cli.views import job_placement

    client = make_client(url, data_dir)
    placement = client.jobs.placement(find_job(client, job).id)
    if svg is not None:
        if not placement["switches"]:
            raise _make_invalid_error(
                "svg: the topology of the network is not known, so nothing is drawn."
            )
        Path(svg).write_text(job_placement.draw_placement(placement), encoding="utf-8")
    if as_json:
        output.print_json(placement)
    else:
        for line in job_placement.format_placement(placement):
            typer.echo(output.to_single_line(line))
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
    from aitne.core.placement.mesh_parser import parse_mesh
    from aitne_train.topology.errors import TopologyError
    from aitne_train.topology.hostlist import compress_hostlist, expand_hostlist
    from aitne_train.topology.rank_order import order_ranks

    topology = _read_topology(file)
    if topology.tree is None:
        raise _make_invalid_error("file: there are no switches. Give a topology.conf, for example.")
    try:
        names = expand_hostlist(nodes)
        sizes = [] if mesh is None else list(parse_mesh(mesh).values())
        order = order_ranks(topology.tree, names, mesh=sizes, ranks_per_node=ranks_per_node)
    except TopologyError as error:
        raise _make_invalid_error(str(error)) from error
    except ValueError as error:
        raise _make_invalid_error(f"{error}.") from error
    if not names:
        raise _make_invalid_error("nodes: the list names no node.")
    if as_json:
        output.print_json(_make_order_document(order))
    else:
        output.print_message(f"aitne: {order.describe()}")
        typer.echo(compress_hostlist(order.order))
    return 0


def _make_order_document(order: RankOrder) -> dict[str, Any]:
    return {
        "order": list(order.order),
        "crossings": {"given": order.given.crossings, "chosen": order.chosen.crossings},
        "busiest_uplink": {
            "given": order.given.busiest_uplink,
            "chosen": order.chosen.busiest_uplink,
        },
        "unknown": list(order.unknown),
    }


def _read_topology(files: list[str]) -> Topology:
    from aitne.bootstrap.topology_reader import read_topology
    from aitne_train.topology.errors import TopologyError

    try:
        return read_topology([Path(file) for file in files])
    except TopologyError as error:
        raise _make_invalid_error(str(error)) from error


def _make_invalid_error(message: str) -> InvalidInput:
    return InvalidInput(message)
