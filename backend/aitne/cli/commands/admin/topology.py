"""``admin topology``: the sources of the topology of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.error_report import FAILED
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.cli.views import topology_tree
from aitne.core.errors import InvalidInput

_MOST_BYTES = 1 << 20
_MOST_NAMED = 8


@group("admin topology")
def topologies() -> None:
    """Import descriptions of the network and of nodes, and check them against the scheduler."""


@topologies.command(
    "import",
    epilog=examples(
        "aitne admin topology import topology.conf\n"
        "aitne admin topology import topo.txt --node gpu01"
    ),
)
def topology_import(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A topology.conf or topology.yaml, the output of `scontrol show topology` or "
            "`nvidia-smi topo -m`, a gres.conf, or an XML file of hwloc.",
        ),
    ],
    node: Annotated[
        str | None,
        typer.Option("--node", help="Node that it describes, if the file does not name it."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Import a file, in place of an earlier one of the same name."""
    client = make_client(url, data_dir)
    client.admin.import_topology(file.name, _read_text(file), node=node)
    return output.print_done(as_json, {"name": file.name}, f"{file.name}: imported.")


@topologies.command("check", epilog=examples("aitne admin topology check --json"))
def topology_check(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Check that the sources agree with each other and know all nodes. The exit status is 1 if they
    do not."""
    found = make_client(url, data_dir).nodes.topology()
    problems = _describe_problems(found)
    if as_json:
        sources = found["sources"]
        answer = {"sources": sources, "unknown_nodes": found["unknown_nodes"], "problems": problems}
        output.print_json(answer)
    else:
        output.print_table(
            ("ORIGIN", "SOURCE", "READ", "PROBLEM"),
            [
                (each["origin"], each["name"], each["read_at"], each["problem"] or "")
                for each in found["sources"]
            ],
        )
        tree = topology_tree.find_switch_tree(found)
        for line in (*problems, *(() if tree is None else tree.notes)):
            output.print_message(line)
        if not problems:
            output.print_message(
                "The sources agree." if found["sources"] else "There is no source."
            )
    return FAILED if problems else 0


@topologies.command("forget", epilog=examples("aitne admin topology forget topology.conf --yes"))
def topology_forget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of an imported file.")],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove an imported file. Jobs that run keep their order."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Remove the imported topology {name}?")
    client.admin.forget_topology(name)
    return output.print_done(as_json, {"name": name, "forgotten": True}, f"{name}: removed.")


def _describe_problems(found: dict[str, Any]) -> list[str]:
    from aitne_train.topology.hostlist import compress_hostlist

    problems = [
        f"{each['name']}: {each['problem']}" for each in found["sources"] if each["problem"]
    ]
    if unknown := found["unknown_nodes"]:
        names = compress_hostlist(unknown[:_MOST_NAMED])
        more = len(unknown) - _MOST_NAMED
        rest = f" and {more} more nodes" if more > 0 else ""
        problems.append(f"The place of {names}{rest} in the network is not known.")
    return problems


def _read_text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8-sig") as stream:
            text = stream.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file} cannot be read: {error}. Give the path of a text file."
        ) from error
    if len(text) > _MOST_BYTES:
        raise InvalidInput(f"{file} has more than {_MOST_BYTES >> 20} MiB. Give a smaller file.")
    return text
