"""Daemons of a cluster: how each is started, and how to check that it is ready."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aitne.core.errors import InvalidInput, SetupError
from aitne_devcluster import broker, processes
from aitne_devcluster.plan import DevClusterPlan
from aitne_devcluster.processes import make_environment

READY_S = 60.0
DIED_S = 1.0
"""Seconds without any process after which a daemon counts as ended. The time between the forks with
which it moves to the background is much shorter.
"""
_POLL_S = 0.03


@dataclass(frozen=True)
class Daemon:
    """Program that a cluster runs permanently.

    ``detaches`` means that it moves to the background by itself after reading its configuration;
    ``inside`` that it runs in the cluster's root file system, if that is not this machine's.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool]
    log: Path
    user: str | None = None
    detaches: bool = True
    inside: bool = True
    variables: tuple[tuple[str, str], ...] = ()


def list_daemons(plan: DevClusterPlan) -> Iterator[Daemon]:
    """Yield all daemons of a cluster, in the order in which they start."""
    yield make_munged_daemon(plan)
    yield make_mariadbd_daemon(plan)
    yield make_slurmdbd_daemon(plan)
    yield make_slurmctld_daemon(plan)
    yield make_slurmrestd_daemon(plan)
    for name in plan.node_names:
        yield make_slurmd_daemon(plan, name)
    yield the_broker(plan)


def make_munged_daemon(plan: DevClusterPlan) -> Daemon:
    """Return munged, which authenticates the daemons to each other (munged(8))."""
    folder = plan.root / "munge"
    argv = (
        "munged",
        f"--key-file={folder}/munge.key",
        f"--socket={plan.munge_socket}",
        f"--pid-file={folder}/munged.pid",
        f"--log-file={folder}/munged.log",
        f"--seed-file={folder}/munged.seed",
        "--num-threads=4",
    )
    return Daemon(
        "munged",
        argv,
        lambda: _is_socket_answering(plan.munge_socket),
        folder / "munged.log",
        user="munge",
    )


def make_mariadbd_daemon(plan: DevClusterPlan) -> Daemon:
    """Return the database server. It has no network access, and its data need not survive a power
    failure.
    """
    folder = plan.root / "db"
    argv = (
        "mariadbd",
        "--no-defaults",
        "--user=slurm",
        f"--datadir={folder}/data",
        f"--tmpdir={folder / 'tmp'}",
        f"--socket={plan.database_socket}",
        f"--pid-file={folder}/run/mariadbd.pid",
        "--skip-networking",
        "--skip-log-bin",
        "--innodb-buffer-pool-size=128M",
        "--innodb-log-file-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-lock-wait-timeout=900",
        f"--log-error={folder}/mariadbd.log",
    )
    return Daemon(
        "mariadbd",
        argv,
        lambda: _is_socket_answering(plan.database_socket, greets=True),
        folder / "mariadbd.log",
        detaches=False,
    )


def make_slurmdbd_daemon(plan: DevClusterPlan) -> Daemon:
    """Return slurmdbd, which stores accounts, limits and ended jobs."""
    return Daemon(
        "slurmdbd",
        ("slurmdbd",),
        lambda: plan.ports.slurmdbd in processes.list_listening_ports(),
        plan.log / "slurmdbd.log",
        variables=(("MYSQL_UNIX_PORT", str(plan.database_socket)),),
    )


def make_slurmctld_daemon(plan: DevClusterPlan) -> Daemon:
    """Return slurmctld, the controller of the cluster."""
    return Daemon(
        "slurmctld",
        ("slurmctld",),
        lambda: plan.ports.slurmctld in processes.list_listening_ports(),
        plan.log / "slurmctld.log",
    )


def make_slurmd_daemon(plan: DevClusterPlan, node: str) -> Daemon:
    """Return the slurmd of the node named ``node``."""
    port = plan.ports.slurmd_first + plan.node_names.index(node)
    return Daemon(
        f"slurmd.{node}",
        ("slurmd", "-N", node),
        lambda: port in processes.list_listening_ports(),
        plan.log / f"slurmd.{node}.log",
    )


def make_slurmrestd_daemon(plan: DevClusterPlan) -> Daemon:
    """Return slurmrestd. It does not run as root, and its clients authenticate with a token."""
    port = plan.ports.slurmrestd
    return Daemon(
        "slurmrestd",
        ("slurmrestd", "-a", "rest_auth/jwt", f"127.0.0.1:{port}"),
        lambda: port in processes.list_listening_ports(),
        plan.log / "slurmrestd.out",
        user="nobody",
        detaches=False,
        # Without a token it would use munge; this word is not a valid token.
        variables=(("SLURM_JWT", "daemon"),),
    )


def the_broker(plan: DevClusterPlan) -> Daemon:
    """Return the broker, through which a platform acts as the cluster's users."""
    return Daemon(
        "broker",
        broker.make_broker_argv(plan),
        lambda: _is_socket_answering(plan.broker_socket),
        plan.log / "broker.out",
        detaches=False,
        inside=False,
    )


def get_daemon(plan: DevClusterPlan, name: str) -> Daemon:
    """Return the daemon with that name. Raises ``InvalidInput`` if there is none."""
    daemons_by_name = {daemon.name: daemon for daemon in list_daemons(plan)}
    if name not in daemons_by_name:
        raise InvalidInput.field(
            "daemon", "there is no such daemon", value=name, allowed=", ".join(daemons_by_name)
        )
    return daemons_by_name[name]


def launch_daemon(plan: DevClusterPlan, daemon: Daemon) -> None:
    """Start a daemon without waiting until it is ready.

    Raises:
        SetupError: the daemon rejects its configuration or is not installed.
    """
    out = plan.log / f"{daemon.name}.out"
    env = make_environment(plan.root, plan.slurm_conf, daemon.name) | dict(daemon.variables)
    user = daemon.user
    as_user = (
        ["setpriv", "--reuid", user, "--regid", _get_group_name(user), "--clear-groups"]
        if user
        else []
    )
    background = [] if daemon.detaches else ["setsid", "--fork"]
    prefix = plan.prefix if daemon.inside else ()
    argv = [*background, *prefix, *as_user, *daemon.argv]
    with out.open("wb") as stream:
        try:
            process = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=env,
                cwd="/",
                check=False,
                timeout=READY_S,
            )
        except FileNotFoundError as error:
            raise SetupError(f"{error.filename} is not installed on this machine.") from error
        except subprocess.TimeoutExpired as error:
            raise SetupError(
                f"{daemon.name} did not start within {READY_S:g} s: {_read_last_output(plan, daemon)}"
            ) from error
    if process.returncode:
        raise SetupError(f"{daemon.name} did not start: {_read_last_output(plan, daemon)}")


def _get_group_name(user: str) -> str:
    return "nogroup" if user == "nobody" else user


def wait_ready(plan: DevClusterPlan, *started: Daemon) -> None:
    """Wait until each of the daemons is ready.

    Raises:
        SetupError: a daemon ended or did not answer in time; the message contains the last lines of
            its log.
    """
    deadline = time.monotonic() + READY_S
    last_seen = {daemon.name: time.monotonic() for daemon in started}
    waiting = list(started)
    while waiting := [daemon for daemon in waiting if not daemon.ready()]:
        now = time.monotonic()
        cluster_processes = processes.find_cluster_processes(plan)
        for daemon in waiting:
            if processes.main_pid(cluster_processes, daemon.name) is not None:
                last_seen[daemon.name] = now
            elif now - last_seen[daemon.name] > DIED_S:
                raise SetupError(
                    f"{daemon.name} ended while it started: {_read_last_output(plan, daemon)}"
                )
        if now > deadline:
            silent = waiting[0]
            raise SetupError(
                f"{silent.name} runs but does not answer after {READY_S:g} s: {_read_last_output(plan, silent)}"
            )
        time.sleep(_POLL_S)
    _write_pids(plan, started)


def _read_last_output(plan: DevClusterPlan, daemon: Daemon) -> str:
    return processes.tail_of(plan.log / f"{daemon.name}.out", daemon.log)


def _write_pids(plan: DevClusterPlan, started: tuple[Daemon, ...]) -> None:
    cluster_processes = processes.find_cluster_processes(plan)
    for daemon in started:
        pid = processes.main_pid(cluster_processes, daemon.name)
        if pid is not None:
            # slurmctld, slurmdbd and slurmd have written the same, under the same name.
            (plan.run / f"{daemon.name}.pid").write_text(f"{pid}\n", encoding="ascii")


def _is_socket_answering(path: Path, *, greets: bool = False) -> bool:
    """Return True if a process accepts connections on the UNIX socket ``path``. With ``greets`` it
    must also send data first, as database servers do.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(path))
            return not greets or bool(client.recv(1))
        except OSError:
            return False
