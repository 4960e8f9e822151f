"""``dev cluster``: a real Slurm on this machine."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from aitne.cli import output
from aitne.cli.command_registry import OPERATE, examples, group
from aitne.cli.shared_options import Json
from aitne.core.errors import SetupError


@group("dev", OPERATE)
def dev() -> None:
    """Run a Slurm cluster on this machine, for developers."""


@group("dev cluster")
def cluster() -> None:
    """Start, use and stop a real Slurm on this machine, with fake GPUs."""


Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The cluster's name.")]


@cluster.command(
    "up",
    epilog=examples(
        """
sudo aitne dev cluster up
sudo aitne dev cluster up --nodes 8 --gpus 2
sudo aitne dev cluster up --nodes 8 --topology interleaved
sudo aitne dev cluster up --name new --slurm trixie    Slurm 24.11 beside the first
"""
    ),
)
def cluster_up(
    name: Name = "dev",
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes, each with a slurmd.")] = 4,
    gpus: Annotated[int, typer.Option("--gpus", help="Fake GPUs of each node.")] = 4,
    slurm: Annotated[
        Literal["system", "trixie", "sid"],
        typer.Option("--slurm", help="This machine's Slurm, or another Debian release's."),
    ] = "system",
    cloud_nodes: Annotated[
        int,
        typer.Option("--cloud-nodes", help="Further nodes without a slurmd, for large tests."),
    ] = 0,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="interleaved|cyclic|block|FILE",
            help="Network: four leaf switches whose names interleave, below one switch or two levels "
            "of them; blocks; or a topology.conf or topology.yaml. Default: two leaf switches.",
        ),
    ] = None,
    port_base: Annotated[
        int | None,
        typer.Option("--port-base", min=1_024, help="The first port; unset: a free one."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Start a Slurm cluster on this machine, as root.

    Missing packages are installed. A cluster that runs already is not changed. Never asks a
    question.
    """
    _require_checkout()
    from aitne_devcluster.cluster import start_cluster

    dev_cluster = start_cluster(
        name,
        nodes=nodes,
        gpus=gpus,
        release=slurm,
        cloud_nodes=cloud_nodes,
        topology=topology,
        port_base=port_base,
        progress=output.print_message,
    )
    if as_json:
        output.print_json(dev_cluster.model_dump(mode="json"))
    else:
        output.print_line(f"export SLURM_CONF={dev_cluster.slurm_conf}")
        output.print_message(
            f"`aitne dev cluster shell{_format_name_option(name)}` opens a shell on it, `down` removes it. A platform uses it "
            f"with `AITNE_SLURM__DEV_CLUSTER={name} aitne up --scheduler slurm`."
        )
    return 0


@cluster.command(
    "shell",
    epilog=examples(
        """
aitne dev cluster shell
aitne dev cluster shell -- sinfo --Node
"""
    ),
    context_settings={"allow_interspersed_args": False},
)
def cluster_shell(
    argv: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Command instead of a shell."),
    ] = None,
    name: Name = "dev",
) -> int:
    """Open a shell in which Slurm's commands use the cluster."""
    from aitne.core.platform.dev_cluster_record import NoDevCluster
    from aitne.local_system.dev_cluster_records import find_dev_cluster

    dev_cluster = find_dev_cluster(name)
    if dev_cluster is None:
        raise NoDevCluster(name)
    shell = os.environ.get("SHELL") or "/bin/bash"
    if (
        dev_cluster.command_prefix
        and not Path(dev_cluster.root, "system", shell.lstrip("/")).exists()
    ):
        shell = "/bin/bash"
    words = [*dev_cluster.command_prefix, *(argv or [shell])]
    os.execvpe(words[0], words, os.environ | dev_cluster.environment)  # noqa: S606 - an argv list


@cluster.command("down", epilog=examples("sudo aitne dev cluster down"))
def cluster_down(name: Name = "dev", as_json: Json = False) -> int:
    """Stop a cluster and remove all that was created for it.

    Its jobs end too. Also removes the remains of a cluster after a crash. Without a cluster it does
    nothing.
    """
    _require_checkout()
    from aitne_devcluster.cluster import remove_cluster

    stopped = remove_cluster(name, progress=output.print_message)
    if as_json:
        output.print_json({"stopped": stopped, "name": name})
    elif not stopped:
        output.print_message(f"There is no development cluster {name}.")
    return 0


@cluster.command("status", epilog=examples("aitne dev cluster status --json"))
def cluster_status(name: Name = "dev", as_json: Json = False) -> int:
    """Show a cluster's daemons and nodes.

    The exit status is 0 if all daemons run.
    """
    _require_checkout()
    from aitne_devcluster.cluster_state import read_cluster_state

    state = read_cluster_state(name)
    if as_json:
        output.print_json(state.model_dump(mode="json"))
    else:
        output.print_facts(
            (
                ("cluster", f"{state.cluster.name}, Slurm {state.cluster.slurm_release}"),
                ("SLURM_CONF", state.cluster.slurm_conf),
                ("REST", state.cluster.rest_url),
                ("broker", state.cluster.broker_socket),
            )
        )
        output.print_line("")
        output.print_table(
            ("DAEMON", "PID", "STATE"),
            [
                (name, pid or "", "running" if pid else "stopped")
                for name, pid in state.daemons.items()
            ],
        )
        output.print_line("")
        output.print_table(("NODE", "STATE"), list(state.nodes.items()))
    return 0 if all(state.daemons.values()) else 1


def _require_checkout() -> None:
    """Raise ``SetupError`` if this is an installed wheel: only an editable install has ``tools``."""
    if find_spec("aitne_devcluster") is None:
        raise SetupError(
            "Development clusters are not part of an installed Aitne. Run `aitne dev cluster` in a "
            "clone of its repository: `make up` there installs .venv/bin/aitne."
        )


def _format_name_option(name: str) -> str:
    return "" if name == "dev" else f" --name {name}"
