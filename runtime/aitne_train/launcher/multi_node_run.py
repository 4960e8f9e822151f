"""Run with ranks on several nodes, for which one launcher starts a launcher on each node and
coordinates all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import subprocess
import sys
import threading

from aitne_train.launcher import rendezvous_store_client
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.hosts import parse_number, parse_task_counts
from aitne_train.launcher.launcher import Launcher, LaunchSettings, find_node_name
from aitne_train.launcher.output_relay import OutputRelay, RankStream
from aitne_train.launcher.own_addresses import LOCAL, own_addresses
from aitne_train.launcher.rank_processes import build_own_command
from aitne_train.launcher.rendezvous_store_server import RendezvousServer

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne_train.launcher.hosts import Host
    from aitne_train.launcher.launch_event_loop import LaunchSupervisor

_LAST_S = 10.0
_SELF = frozenset({"localhost", "127.0.0.1", "::1"})
_SPEC = "spec"
_OWN_OF_NODE = (
    "HOSTNAME",
    "HOST",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "SHLVL",
    "_",
    "DISPLAY",
    "XAUTHORITY",
)
_OF_ONE_TASK = (
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_TRES_PER_TASK",
)
_OWN_OF_SESSION = (
    "SSH_",
    "XDG_",
    "SLURMD_",
    "SLURM_STEP",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
)


def run_on_nodes(targets: Sequence[Host], launcher: str, settings: LaunchSettings) -> int:
    """Start a launcher on each node, coordinate the run, and return its exit code. This process
    runs no ranks.

    Args:
        targets: nodes with their numbers of ranks, in the order of the ranks.
        launcher: ``ssh`` or ``srun``.
        settings: program and options.

    Raises:
        LaunchError: ``ssh`` or ``srun`` is not installed.
    """
    outer, token = Launcher(settings), secrets.token_hex(32)
    outer.supervisor.forward_signals()
    server = RendezvousServer(token, "", outer.supervisor.queue_message)
    relay = None
    try:
        addresses = own_addresses(server.port, os.environ, len(targets) + 1)
        names = [host.name for host in targets]
        spec = {
            "names": names,
            # On other nodes "localhost" is another machine.
            "master": find_node_name() if names[0] in _SELF else names[0],
            "ranks": [host.ranks for host in targets],
            "argv": settings.argv,
            "prefix": settings.prefix,
            "bind": settings.bind,
            "cwd": os.getcwd(),
        }
        client = rendezvous_store_client.RendezvousClient(addresses, token)
        client.set(_SPEC, json.dumps(spec).encode())
        client.close()
        outer.prepare_coordinator(names, server)
        outer.supervisor.passed_on = range(len(targets))
        # The environment contains secrets: it is sent through ssh, which encrypts, not through the store.
        way = json.dumps(
            {"addresses": addresses, "token": token, "environ": _list_passed_variables(launcher)}
        )
        starts = (
            _build_ssh_starts(targets, way, settings.ssh_options)
            if launcher == "ssh"
            else _build_srun_starts(targets, way)
        )
        relay = _start_launchers(starts, outer)
        return outer.run()
    finally:
        server.close()
        if relay is not None:
            relay.finish(_LAST_S)
        outer.keeper.end_processes()
        outer.keeper.release()


class _Start:
    """Command (``ssh`` or ``srun``) that starts launchers on nodes.

    Args:
        argv: the command.
        nodes: numbers of the nodes on which it starts launchers.
        way: address and token of the first launcher, as JSON.
        environ: environment variables of the command; None: those of this process.
    """

    def __init__(
        self, argv: list[str], nodes: list[int], way: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.argv = argv
        self.nodes = nodes
        self.way = way
        """Address and token of the first launcher, which are written to the standard input of the
        command."""
        self.environ = environ


def _build_ssh_starts(targets: Sequence[Host], way: str, more: Sequence[str]) -> list[_Start]:
    command = " ".join(shlex.quote(word) for word in build_own_command())
    options = ["-o", "BatchMode=yes", "-T", *more]
    return [
        _Start(["ssh", *options, host.name, f"{command} _follow --index {index}"], [index], way)
        for index, host in enumerate(targets)
    ]


def _build_srun_starts(targets: Sequence[Host], way: str) -> list[_Start]:
    argv = [
        "srun",
        f"--nodes={len(targets)}",
        f"--ntasks={len(targets)}",
        "--ntasks-per-node=1",
        f"--nodelist={','.join(host.name for host in targets)}",
        "--mpi=none",
        "--input=none",
        "--kill-on-bad-exit=1",
        "--quiet",
    ]
    # The step's one task on a node is to have all resources of the job there, not one rank's share: without
    # these variables it does (https://slurm.schedmd.com/srun.html, --exact). Ranks get them back. For GPUs
    # the request of the job applies to its steps unless they state another one.
    kind, _, digits = (os.environ.get("SLURM_GPUS_PER_TASK") or "").rpartition(":")
    if count := parse_number(digits):
        tasks = min(parse_task_counts(os.environ.get("SLURM_TASKS_PER_NODE") or "1"))
        argv.append(f"--gpus-per-node={kind}{':' if kind else ''}{count * tasks}")
    environ = {name: value for name, value in os.environ.items() if name not in _OF_ONE_TASK}
    environ["AITNE_LAUNCH_WAY"] = way
    return [
        _Start([*argv, *build_own_command(), "_follow"], list(range(len(targets))), "", environ)
    ]


def _start_launchers(starts: Sequence[_Start], outer: Launcher) -> OutputRelay:
    streams = []
    for start in starts:
        try:
            child = subprocess.Popen(
                start.argv,
                env=start.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(
                f"{start.argv[0]} cannot be started: {error.strerror}. Use another --launcher"
            ) from error
        outer.keeper.add_group(child.pid)
        if child.stdin is None or child.stdout is None or child.stderr is None:
            raise RuntimeError("pipes were requested")
        streams += [
            RankStream(start.nodes[0], os.dup(child.stdout.fileno()), 1),
            RankStream(start.nodes[0], os.dup(child.stderr.fileno()), 2),
        ]
        child.stdout.close()
        child.stderr.close()
        threading.Thread(
            target=_watch_launcher,
            args=(child, start, outer.supervisor),
            name="aitne-start",
            daemon=True,
        ).start()
    return OutputRelay(streams, at_once=False)


def _watch_launcher(
    child: subprocess.Popen[bytes], start: _Start, supervisor: LaunchSupervisor
) -> None:
    if child.stdin is not None:
        # In this thread, as an environment may exceed a pipe's buffer before ssh is connected.
        with contextlib.suppress(BrokenPipeError), child.stdin:  # it has ended with a message
            child.stdin.write(f"{start.way}\n".encode())
    code = child.wait()
    for index in start.nodes:
        supervisor.queue_child_end(index, code)


def _list_passed_variables(launcher: str) -> dict[str, str]:
    """Return the variables of this process's environment that are passed to the ranks.

    With ``srun`` these are only the variables in ``_OF_ONE_TASK``, which must not affect srun itself
    and are therefore removed from its environment; srun passes all others.
    """
    if launcher == "srun":
        return {name: os.environ[name] for name in _OF_ONE_TASK if name in os.environ}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _OWN_OF_NODE and not name.startswith(_OWN_OF_SESSION)
    }


def run_started_launcher(index: int | None) -> int:
    """Run the launcher that ``run_on_nodes`` has started on this node, and return its exit code.
    The settings are requested from the first launcher.

    Args:
        index: number of this node; None: it is determined from the node's name.

    Raises:
        LaunchError: the first launcher cannot be reached, or does not expect this node.
    """
    text = os.environ.pop("AITNE_LAUNCH_WAY", None) or sys.stdin.readline()
    try:
        way = json.loads(text)
    except ValueError as error:
        raise LaunchError("`_follow` is internal: aitne-run starts it on other nodes") from error
    client = rendezvous_store_client.RendezvousClient(way["addresses"], way["token"])
    try:
        spec = json.loads(client.get(_SPEC, rendezvous_store_client.TRY_S))
        if index is None:
            index = _find_node_index(spec["names"])
        line = client.open_line(str(index))
    except OSError as error:
        raise LaunchError(
            f"the aitne-run that started this node cannot be reached: {error}"
        ) from error
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.environ.update(way["environ"])
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        raise LaunchError(
            f"{spec['cwd']} cannot be entered on {find_node_name()}: {error.strerror}"
        ) from error
    launcher = Launcher(LaunchSettings(spec["argv"], prefix=spec["prefix"], bind=spec["bind"]))
    launcher.supervisor.forward_signals()
    master = spec["master"] if len(spec["names"]) > 1 else LOCAL
    try:
        launcher.prepare_node(spec["ranks"], client, master, index, None, spec["names"])
        return launcher.run(line)
    finally:
        launcher.keeper.release()


def _find_node_index(names: Sequence[str]) -> int:
    name = find_node_name()
    if name not in names:
        raise LaunchError(
            f"{name} is not one of the nodes that aitne-run requested: {', '.join(names)}"
        )
    return list(names).index(name)
