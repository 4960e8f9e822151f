"""``template`` and ``node``: templates, nodes and partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, group_app

templates = group_app("Templates of sessions and jobs: list, show.")
nodes = group_app("Nodes of the cluster: list, partitions, GPUs.")


@nodes.callback()
def _nodes() -> None:
    """Nodes of the cluster: list, partitions, GPUs."""


@templates.command("ls")
def template_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the templates. Administrators also see the files that were rejected."""
    templates = connect(url, data_dir).templates
    found = templates.list()
    for problem in templates.problems():
        where = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
        output.say(f"Refused {output.plain(where)}: {output.plain(problem.reason)}")
    return output.listing(
        as_json,
        found,
        ("NAME", "VERSION", "TYPE", "TITLE"),
        lambda item: (item.name, item.version, item.type, item.title),
    )


@templates.command("show")
def template_show(
    name: Annotated[str, typer.Argument(help="A template's name.")],
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show one template and its parameters."""
    found = connect(url, data_dir).templates.get(name)
    if as_json:
        output.answer_json(found.raw)
        return 0
    output.facts(
        [
            ("Name", f"{found.name} {found.version}"),
            ("Title", found.title),
            ("Type", found.type),
            ("Image", found.image),
            ("About", (found.description or "").strip()),
        ]
    )
    if found.parameters:
        output.answer("")
        output.table(
            ("PARAMETER", "TYPE", "DEFAULT", "ABOUT"),
            [
                (
                    item.name,
                    "|".join(item.choices) if item.choices else item.type,
                    "(needed)" if item.default is None else output.plain(item.default, 40),
                    item.description or item.title,
                )
                for item in found.parameters
            ],
        )
    return 0


@nodes.command("ls")
def node_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the nodes and the use of their resources."""
    found = connect(url, data_dir).nodes.list()
    return output.listing(
        as_json,
        found,
        ("NAME", "STATE", "PARTITION", "CPU", "MEMORY", "GPU", "FEATURES", "REASON"),
        lambda node: (
            node.name,
            node.state,
            " ".join(node.partitions or ()),
            f"{node.cpu_used}/{node.cpu_total}",
            f"{output.memory(node.memory_used_bytes)}/{output.memory(node.memory_total_bytes)}",
            " ".join(f"{gpu.type or 'gpu'} {gpu.used}/{gpu.total}" for gpu in node.gpus),
            " ".join(node.features or ()),
            node.reason or "",
        ),
    )


@nodes.command("partitions")
def partition_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the partitions, their limits and free resources."""
    found = connect(url, data_dir).nodes.partitions()
    return output.listing(
        as_json,
        found,
        ("NAME", "STATE", "NODES", "CPU", "FREE GPU", "LONGEST", "LIST"),
        lambda each: (
            f"{each.name}*" if each.default else each.name,
            "up" if each.up else "closed",
            each.node_count,
            f"{each.cpu_used}/{each.cpu_total}",
            " ".join(f"{gpu.type or 'gpu'} {gpu.free}/{gpu.total}" for gpu in each.gpus),
            "" if each.max_time_s is None else output.duration(each.max_time_s),
            each.nodes,
        ),
    )


@nodes.command("gpus")
def gpu_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the GPUs by type: free, used, and when the next ones become free."""
    from datetime import datetime

    found = connect(url, data_dir).nodes.capacity()
    if as_json:
        output.answer_json(found)
        return 0
    if not found:
        output.say("No node has a GPU.")
        return 0
    output.table(
        ("TYPE", "FREE", "USED", "OUT", "TOTAL", "WAITED FOR", "NEXT FREE"),
        [
            (
                each["type"] or "gpu",
                each["free"],
                each["used"],
                each["out"] or "",
                each["total"],
                each["waiting"] or "",
                output.moment(datetime.fromisoformat(each["next_free_at"]))
                if each["next_free_at"]
                else "",
            )
            for each in found
        ],
    )
    return 0


apps = {"template": templates, "node": nodes}
