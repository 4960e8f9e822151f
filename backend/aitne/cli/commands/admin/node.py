"""``admin node``: administration of a cluster's nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.commands.node import node_ls
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.client import Client


@group("admin node")
def nodes() -> None:
    """Drain and resume nodes, and show their history."""


nodes.command("ls")(node_ls)

Names = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names from `node ls`.")]


@nodes.command(
    "drain", epilog=examples("aitne admin node drain gpu03 gpu04 --reason 'new fans' --yes")
)
def node_drain(
    names: Names,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown with the node.")],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Drain nodes, so that they start no new jobs. Running jobs continue."""
    client = make_client(url, data_dir)
    if not yes:
        _print_nodes(client, names)
        output.require_confirmation(f"Drain {', '.join(names)}?")
    changed_nodes = [client.nodes.drain(name, reason) for name in names]
    return output.print_done(
        as_json, [node.raw for node in changed_nodes], f"{', '.join(names)}: no new jobs start."
    )


@nodes.command("resume", epilog=examples("aitne admin node resume gpu03 --yes"))
def node_resume(
    names: Names,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Resume drained nodes, so that they start jobs again."""
    client = make_client(url, data_dir)
    if not yes:
        _print_nodes(client, names)
        output.require_confirmation(f"Resume {', '.join(names)}?")
    changed_nodes = [client.nodes.resume(name) for name in names]
    return output.print_done(
        as_json, [node.raw for node in changed_nodes], f"{', '.join(names)}: new jobs may start."
    )


@nodes.command("history", epilog=examples("aitne admin node history gpu03"))
def node_history(
    name: Annotated[str, typer.Argument(metavar="NODE", help="A name from `node ls`.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the history of a node, newest first: outages, drains and resumes."""
    events = list(make_client(url, data_dir).nodes.history(name, limit=limit))
    return output.print_list(
        as_json,
        events,
        ("TIME", "WHAT", "WHO", "REASON"),
        lambda event: (
            output.format_time(event.time),
            event.event,
            event.actor or "",
            event.reason or "",
        ),
    )


def _print_nodes(client: Client, names: list[str]) -> None:
    nodes_by_name = {node.name: node for node in client.nodes.list()}
    output.print_table(
        ("NODE", "STATE", "GPU", "REASON"),
        [
            (
                name,
                node.state if (node := nodes_by_name.get(name)) else "unknown",
                " ".join(f"{gpu.used}/{gpu.total}" for gpu in node.gpus) if node else "",
                (node.reason or "") if node else "",
            )
            for name in names
        ],
    )
