"""``aitne-run``: starts the ranks of a program. In a process that another launcher has started as a
rank, it is replaced by the program."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys

from aitne_train.launcher import (
    environment_checks,
    horovod_import,
    hosts,
    multi_node_run,
    slurm_and_mpi_queries,
)
from aitne_train.launcher import options as command_line
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.launcher import (
    LaunchSettings,
    build_mpi_command,
    replace_process,
    run_alone,
    run_node,
)
from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.rank_detection import RankTopology, detect_topology
from aitne_train.launcher.rank_processes import NotStarted, build_own_command
from aitne_train.launcher.transport_requirements import NEEDS_MPI

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from aitne_train.launcher.hosts import Host

FAILED, USAGE, INTERRUPTED = 1, 2, 130
APP = "--app"
"""First option of ``aitne-run node`` on the first node of a session or notebook: a JSON object with
the command of the app (``argv``) and further environment variables of the ranks (``env``)."""
_LOCAL_NAMES = ("localhost", "127.0.0.1")


def run() -> NoReturn:
    """Run the program ``aitne-run`` and exit with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Execute the command line and return its exit code."""
    _open_standard_descriptors()
    try:
        if arguments[:2] == ["node", APP] and len(arguments) > 2:
            return _run_session(arguments[2], arguments[3:])
        if arguments[:1] == ["node"] and "--run-dir" in arguments:
            return _run_node(arguments[1:])
        if arguments[:1] == ["_follow"]:
            return multi_node_run.run_started_launcher(
                int(arguments[2]) if len(arguments) == 3 else None
            )
        return _run_ranks(command_line.build_parser().parse_args(arguments))
    except NotStarted as error:
        print_message(str(error))
        return error.code
    except LaunchError as error:
        print_message(str(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_ranks(options: argparse.Namespace) -> int:
    argv = _find_program(options)
    settings = _build_settings(options, argv)
    os.environ.update(command_line.build_variables(options))
    horovod_import.check_transport(os.environ)
    world = detect_topology(os.environ)
    if _is_rank(world, options):
        _print_rank_warnings(world)
        replace_process(world, argv, os.environ, options.timeout)
    host_list = _find_hosts(options, os.environ)
    launcher = _choose_launcher(options, host_list, os.environ)
    host_list = _order_hosts(host_list, launcher, options)
    local = host_list if launcher == "local" else host_list[:1]
    _print_warnings(
        os.environ,
        local[0].ranks,
        sum(host.ranks for host in host_list),
        bind=options.bind != "off",
    )
    if launcher in ("mpirun", "srun") and (launcher == "mpirun" or options.transport in NEEDS_MPI):
        if options.restarts:
            raise LaunchError(
                "--restarts does not work where MPI starts the ranks: omit it, or use another --transport"
            )
        command = build_mpi_command(host_list, launcher, settings)
        if options.network_interface and len(host_list) > 1:
            raise LaunchError(
                "--network-interface does not work where MPI exchanges: use the variables of MPI, such as "
                "OMPI_MCA_btl_tcp_if_include"
            )
        os.execvp(command[0], command)  # noqa: S606
    if launcher == "local":
        return run_alone(host_list[0].ranks, settings)
    return multi_node_run.run_on_nodes(host_list, launcher, settings)


def _run_session(app: str, arguments: Sequence[str]) -> int:
    """Run an app, and beside it this node's part of a run."""
    from aitne_train.launcher import session_with_ranks

    options = _build_node_parser().parse_args(arguments)
    facts = json.loads(app)
    return session_with_ranks.run_session(
        facts["argv"],
        [*build_own_command(), "node", *arguments],
        facts["env"],
        run_dir=options.run_dir,
        node=options.node_rank,
    )


def _build_node_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aitne-run node",
        description="One node's part of a run whose nodes are started by another program and share a folder.",
    )
    parser.add_argument(
        "--nodes",
        type=command_line.parse_positive,
        required=True,
        help="number of nodes of the run",
    )
    parser.add_argument("--node-rank", type=int, required=True, help="number of this node, from 0")
    parser.add_argument("--ranks", required=True, help="ranks of each node: 2, or 2(x3),1")
    parser.add_argument("--run-dir", required=True, help="folder that all nodes share")
    parser.add_argument("--job", required=True, help="unique identifier of this run")
    command_line.add_common_options(parser)
    return parser


def _run_node(arguments: Sequence[str]) -> int:
    parser = _build_node_parser()
    options = parser.parse_args(arguments)
    ranks = hosts.parse_task_counts(options.ranks)
    if len(ranks) == 1:
        ranks = ranks * options.nodes
    if len(ranks) != options.nodes or not all(ranks) or not 0 <= options.node_rank < options.nodes:
        parser.error(
            f"node {options.node_rank} with ranks {options.ranks} is not one of {options.nodes} nodes"
        )
    os.environ.update(command_line.build_variables(options))
    horovod_import.check_transport(os.environ)
    settings = _build_settings(options, _find_program(options))
    if options.node_rank == 0:
        environ = {name: text for name, text in os.environ.items() if name not in _PLATFORMS}
        # The platform binds where it can; only an explicit request deserves a message.
        _print_warnings(environ, ranks[0], sum(ranks), bind=options.bind == "cores")
    if options.nodes == 1:
        os.environ["AITNE_RUN_DIR"] = options.run_dir
        return run_alone(ranks[0], settings)
    return run_node(options.node_rank, ranks, options.run_dir, options.job, settings)


def _find_program(options: argparse.Namespace) -> list[str]:
    argv: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not argv or not argv[0]:
        sys.stderr.write(
            "aitne-run: no program is given: aitne-run -np 2 python train.py. `aitne-run --help` has more examples\n"
        )
        sys.exit(USAGE)
    return argv


def _build_settings(options: argparse.Namespace, argv: Sequence[str]) -> LaunchSettings:
    return LaunchSettings(
        argv,
        prefix=options.prefix,
        bind=options.bind,
        restarts=options.restarts,
        timeout_s=options.timeout,
        grace_s=options.grace,
        ssh_options=command_line.build_ssh_options(options) if "ssh_port" in options else (),
    )


# --- mode of the run -----------------------------------------------------------------------------


def _is_rank(world: RankTopology, options: argparse.Namespace) -> bool:
    """Return whether this process is itself a rank, which another launcher has started.

    Raises ``LaunchError`` if the requested number of ranks differs from that launcher's.
    """
    ranks = options.np
    if ranks is None and (options.hosts or options.hostfile):
        ranks = sum(host.ranks for host in _find_named_options(options))
    if world.source == "none" or (world.source == "slurm" and world.size == 1):
        return False
    if ranks is None or ranks == world.size:
        return True
    if world.size == 1:
        return False
    raise LaunchError(
        f"{ranks} ranks are requested inside a world of {world.size} that {_find_starter(world)} has started. Omit -np and -H "
        "where another launcher starts the ranks; start a single aitne-run where it is to start them"
        + (
            ". If these variables remain from another run: unset HOROVOD_RANK, HOROVOD_SIZE, RANK and WORLD_SIZE"
            if world.source in ("horovod", "torchrun")
            else ""
        )
    )


def _find_starter(world: RankTopology) -> str:
    return {"slurm": "srun", "mpi": "mpirun", "aitne": "aitne-run", "horovod": "horovodrun"}.get(
        world.source, world.source
    )


def _find_named_options(options: argparse.Namespace) -> list[Host]:
    if options.hosts:
        return hosts.parse_hosts(options.hosts)
    try:
        with open(options.hostfile, encoding="utf-8-sig") as stream:
            return hosts.parse_hostfile(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{options.hostfile} cannot be read: {error}") from error


def _find_hosts(options: argparse.Namespace, environ: Mapping[str, str]) -> list[Host]:
    """Return the hosts of the ranks, from the command line, or else from the Slurm allocation."""
    if options.hosts or options.hostfile:
        return hosts.spread_ranks(_find_named_options(options), options.np)
    allotted = slurm_and_mpi_queries.read_allocation(environ)
    if allotted is not None and (options.np is None or len(allotted) > 1):
        return hosts.spread_ranks(allotted, options.np)
    ranks_per_node = hosts.parse_number(environ.get("AITNE_RANKS_PER_NODE"))
    if options.np is None and environ.get("AITNE_NODES", "1") == "1" and ranks_per_node:
        return [hosts.Host(socket.gethostname(), ranks_per_node)]
    if options.np is None:
        raise LaunchError(
            "the number of ranks is not known: give -np, as in `aitne-run -np 2 python train.py`; only a job of several "
            "tasks defines it"
        )
    return [hosts.Host(socket.gethostname(), options.np)]


def _order_hosts(host_list: list[Host], launcher: str, options: argparse.Namespace) -> list[Host]:
    """Return the hosts in the order in which ranks are numbered. Raises ``LaunchError``."""
    if launcher == "srun" and options.transport in NEEDS_MPI:
        if options.order.startswith("file:"):
            raise LaunchError(
                "--order does not work where srun starts MPI ranks: use --launcher mpirun, or srun "
                "--distribution=arbitrary with SLURM_HOSTFILE"
            )
        return host_list
    if len(host_list) == 1:
        return host_list
    from aitne_train.launcher import host_order  # a run on one node does not need it

    return host_order.order_hosts(host_list, options.order, os.environ)


def _choose_launcher(
    options: argparse.Namespace, host_list: Sequence[Host], environ: Mapping[str, str]
) -> str:
    here = len(host_list) == 1 and _is_this_node(host_list[0].name, environ)
    in_slurm = "SLURM_JOB_ID" in environ
    chosen: str = options.launcher
    if chosen == "auto" and options.transport in NEEDS_MPI:
        return "srun" if in_slurm and _has_pmix() else "mpirun"
    if chosen == "auto":
        if here:
            return "local"
        return "srun" if in_slurm else "ssh"
    if chosen == "local" and not here:
        raise LaunchError(
            f"{', '.join(host.name for host in host_list)} include other nodes: --launcher local starts ranks only here"
        )
    if chosen == "srun" and not in_slurm:
        raise LaunchError(
            "--launcher srun works inside a Slurm job: use salloc or sbatch first, or another --launcher"
        )
    if options.transport in NEEDS_MPI and chosen in ("local", "ssh"):
        raise LaunchError(
            f"--transport {options.transport} needs ranks that MPI has started: use --launcher mpirun or srun"
        )
    return chosen


def _has_pmix() -> bool:
    return any(name.startswith("pmix") for name in slurm_and_mpi_queries.query_mpi_plugins())


def _is_this_node(name: str, environ: Mapping[str, str]) -> bool:
    hostname = socket.gethostname()
    return name in (
        *_LOCAL_NAMES,
        hostname,
        hostname.partition(".")[0],
        environ.get("SLURMD_NODENAME"),
    )


# --- advice --------------------------------------------------------------------------------------


_PLATFORMS = frozenset({"SLURM_NTASKS", "MASTER_ADDR"})
"""Variables that the platform sets in its jobs, although it starts one task on each node, not one
for each rank."""


def _print_warnings(environ: Mapping[str, str], ranks: int, size: int, *, bind: bool) -> None:
    facts = environment_checks.collect_facts(ranks, size)
    for text in environment_checks.find_problems(environ, facts):
        print_message(text)
    if bind and facts.cpus < ranks:
        print_message(
            f"ranks are not bound: {ranks} ranks cannot each have one of {facts.cpus} CPUs"
        )


def _print_rank_warnings(world: RankTopology) -> None:
    """Print a warning about this rank's GPUs if it is rank 0 and there is one."""
    warning = environment_checks.check_hidden_peers(os.environ, world.local_size)
    if warning is not None and world.rank == 0:
        print_message(warning)


def _open_standard_descriptors() -> None:
    """Open the file descriptors 0 to 2 on ``/dev/null`` if they are closed.

    Otherwise a pipe could get one of these numbers, and the output of a rank would become its
    input.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return
