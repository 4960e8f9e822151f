"""The two ways of running ranks: all on this node, or with one launcher on each of several
nodes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import tempfile
import time

from aitne_train.launcher import (
    horovod_import,
    hosts,
    rendezvous_store_client,
    slurm_and_mpi_queries,
    slurm_task_variables,
)
from aitne_train.launcher.cleanup_process import CleanupProcess
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.held_ports import HeldPort
from aitne_train.launcher.launch_coordinator import LaunchCoordinator
from aitne_train.launcher.launch_event_loop import LaunchSupervisor
from aitne_train.launcher.launch_node import LaunchNode
from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.own_addresses import LOCAL, build_interface_variables, own_addresses
from aitne_train.launcher.rank_processes import (
    NotStarted,
    build_own_command,
    build_rank_variables,
    count_threads_per_rank,
)
from aitne_train.launcher.rendezvous_store_server import RendezvousServer

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from aitne_train.launcher.hosts import Host
    from aitne_train.launcher.rank_detection import RankTopology

_LOOK_S = 0.02


class LaunchSettings:
    """Program to run and its options, without those that select hosts and ranks.

    Args:
        argv: program and arguments of every rank.
        prefix: whether the number of the rank is written before each line of its output.
        bind: what ranks are bound to: ``auto``, ``cores`` or ``off``.
        restarts: maximum number of restarts of failed ranks.
        timeout_s: seconds within which all nodes must have joined the run.
        grace_s: seconds that ranks have to end after a signal, or after the first rank has ended.
        ssh_options: options of ``ssh`` for starting launchers on other nodes.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        prefix: bool = False,
        bind: str = "off",
        restarts: int = 0,
        timeout_s: float = 120.0,
        grace_s: float = 30.0,
        ssh_options: Sequence[str] = (),
    ) -> None:
        self.argv = list(argv)
        self.prefix = prefix
        self.bind = bind
        self.restarts = restarts
        self.timeout_s = timeout_s
        self.grace_s = grace_s
        self.ssh_options = list(ssh_options)


class Launcher:
    """Launcher of one node, with its main loop and its cleanup process, which is created before any
    thread."""

    def __init__(self, settings: LaunchSettings) -> None:
        self.settings = settings
        # Marks this launcher's own processes: two nodes of a run may be one machine.
        self.run_id = secrets.token_hex(8)
        self.keeper = CleanupProcess(self.run_id)
        self.supervisor = LaunchSupervisor()

    def prepare_node(
        self,
        ranks: Sequence[int],
        client: rendezvous_store_client.RendezvousClient,
        master: str,
        index: int,
        run_dir: str | None,
        names: Sequence[str] = (),
    ) -> None:
        """Prepare this launcher to run the ranks of node ``index``.

        Args:
            ranks: number of ranks of each node.
            client: client of the rendezvous store.
            master: address under which ranks reach the first node.
            index: number of this node.
            run_dir: value of ``AITNE_RUN_DIR`` for the ranks; None: the launcher's own, or else a
                new temporary folder.
            names: names of the nodes, for the host file of the ranks; empty: they are not known.
        """
        folder = _create_run_folder(self.keeper, run_dir)
        if names:
            os.environ[hosts.VARIABLE] = _write_hostfile(folder, names, ranks)
        self.supervisor.index = index
        self.supervisor.node = LaunchNode(
            index,
            find_node_name(),
            ranks,
            self.settings.argv,
            os.environ,
            store=client,
            master=master,
            run_id=self.run_id,
            run_dir=folder,
            keeper=self.keeper,
            report=self.supervisor.report_to_coordinator,
            on_ended=self.supervisor.queue_rank_end,
            prefix=self.settings.prefix,
            bind=self.settings.bind,
        )

    def prepare_coordinator(self, names: Sequence[str], server: RendezvousServer) -> None:
        """Prepare this launcher to coordinate all nodes, which have the names ``names``."""
        self.supervisor.server = server
        self.supervisor.coordinator = LaunchCoordinator(
            names,
            self.settings.restarts,
            time.monotonic() + self.settings.timeout_s,
            self.settings.grace_s,
            self.supervisor.send_order,
            print_message,
        )

    def run(self, line: socket.socket | None = None) -> int:
        """Run until all ranks have ended and return the exit code. ``line`` is the connection to
        the coordinator on another node; None: the coordinator is in this process."""
        if line is not None:
            self.supervisor.listen(line)
        if self.supervisor.node is not None:
            self.supervisor.report_to_coordinator({"kind": "here", "name": find_node_name()})
        return self.supervisor.run()


def run_alone(ranks: int, settings: LaunchSettings) -> int:
    """Run ``ranks`` ranks on this node, and return the exit code."""
    return _run_first_node([ranks], [find_node_name()], settings, run_dir=None, address_file=None)


def run_node(
    index: int, ranks: Sequence[int], run_dir: str, key: str, settings: LaunchSettings
) -> int:
    """Run this node's part of a run whose nodes share the folder ``run_dir``, and return the exit
    code. The first node coordinates the run.

    Args:
        index: number of this node.
        ranks: number of ranks of each node.
        run_dir: shared folder, in which the first node publishes its address.
        key: id of the run, so that no node uses the address of an earlier run.
        settings: settings from the command line.

    Raises:
        LaunchError: the first node does not join, or the folder cannot be used.
    """
    path = os.path.join(run_dir, f"rendezvous-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
    if index == 0:
        names = [find_node_name()] + [f"number {number}" for number in range(1, len(ranks))]
        return _run_first_node(ranks, names, settings, run_dir=run_dir, address_file=path)
    launcher = Launcher(settings)
    try:
        client, line = _find_first_node(path, index, settings.timeout_s)
        launcher.supervisor.forward_signals()
        launcher.prepare_node(ranks, client, str(client.host), index, run_dir)
        return launcher.run(line)
    finally:
        launcher.keeper.release()


def _run_first_node(
    ranks: Sequence[int],
    names: Sequence[str],
    settings: LaunchSettings,
    run_dir: str | None,
    address_file: str | None,
) -> int:
    launcher, token = Launcher(settings), secrets.token_hex(32)
    launcher.supervisor.forward_signals()
    server = RendezvousServer(
        token, LOCAL if len(ranks) == 1 else "", launcher.supervisor.queue_message
    )
    client = rendezvous_store_client.RendezvousClient(
        own_addresses(server.port, os.environ, len(ranks)), token
    )
    try:
        client.set("begun", b"")  # from now on it is known which address leads here
        launcher.prepare_coordinator(names, server)
        launcher.prepare_node(ranks, client, str(client.host), 0, run_dir)
        if address_file is not None:
            _publish_address(address_file, client)
        return launcher.run()
    finally:
        if address_file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(address_file)
        client.close()
        server.close()
        launcher.keeper.release()


def _publish_address(path: str, client: rendezvous_store_client.RendezvousClient) -> None:
    try:
        rendezvous_store_client.publish_address(path, client.addresses, client.token)
    except OSError as error:
        raise LaunchError(
            f"{os.path.dirname(path)} cannot be written: {error.strerror}. Give a --run-dir that all nodes can write"
        ) from error


def _create_run_folder(keeper: CleanupProcess, run_dir: str | None) -> str:
    chosen = run_dir or os.environ.get("AITNE_RUN_DIR")
    if chosen:
        try:
            os.makedirs(chosen, mode=0o700, exist_ok=True)
        except OSError as error:
            raise LaunchError(
                f"{chosen}, the run's folder, cannot be created: {error.strerror}"
            ) from error
        return os.path.abspath(chosen)
    made = tempfile.mkdtemp(prefix="aitne-run-")
    keeper.add_folder(made)
    return made


def _write_hostfile(folder: str, names: Sequence[str], ranks: Sequence[int]) -> str:
    """Write the nodes with their numbers of ranks, in the order of the ranks, and return the path of
    the file. Launchers of nodes that share the folder write the same."""
    path = os.path.join(folder, "hostfile")
    temporary = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(hosts.format_hostfile(names, ranks))
        os.replace(temporary, path)
    except OSError as error:
        raise LaunchError(f"{path} cannot be written: {error.strerror}") from error
    return path


def find_node_name() -> str:
    """Return the name of this node according to Slurm, or else its host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _find_first_node(
    path: str, index: int, timeout_s: float
) -> tuple[rendezvous_store_client.RendezvousClient, socket.socket]:
    """Wait at most ``timeout_s`` seconds for the first node; return a client of its store and a
    connection to it. ``path`` is the file in which it publishes its address. Raises
    ``LaunchError``."""
    give_up, reason = time.monotonic() + timeout_s, f"it has published no address in {path}"
    while time.monotonic() < give_up:
        endpoint = rendezvous_store_client.read_rendezvous_file(path)
        if endpoint is not None:
            client = rendezvous_store_client.RendezvousClient(*endpoint)
            try:
                return client, client.open_line(str(index))
            except ConnectionError as error:
                reason = str(error)  # of an earlier run, or just closed
        time.sleep(_LOOK_S)
    raise LaunchError(
        f"this node has waited {timeout_s:g} s for the first one: {reason}. See the output there; nodes "
        "must share the folder, and reach each other"
    )


# --- MPI -----------------------------------------------------------------------------------------


def build_mpi_command(
    targets: Sequence[Host], launcher: str, settings: LaunchSettings
) -> list[str]:
    """Return the command that starts the ranks with MPI: ``mpirun``, or ``srun`` with PMIx.

    Raises:
        LaunchError: the command is not available.
    """
    size = sum(host.ranks for host in targets)
    ours = ["--horovod"] if horovod_import.VARIABLE in os.environ else []
    inner = [*build_own_command(), *ours, "--", *settings.argv]
    several = len(targets) > 1
    if launcher == "srun":
        kind = slurm_and_mpi_queries.choose_pmix(slurm_and_mpi_queries.query_mpi_plugins())
        return ["srun", f"--ntasks={size}", f"--mpi={kind}", "--kill-on-bad-exit=1", *inner]
    if shutil.which("mpirun") is None:
        raise LaunchError(
            "MPI's mpirun is not installed: install Open MPI (apt-get install openmpi-bin), load its module, or use "
            "another --transport than mpi and horovod"
        )
    if os.geteuid() == 0 and not _may_run_as_root(os.environ):
        print_message(
            "Open MPI does not start ranks as root: use another account, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, for example in a container"
        )
    host_options = (
        ["--host", ",".join(f"{host.name}:{host.ranks}" for host in targets)] if several else []
    )
    return [
        "mpirun",
        "-np",
        str(size),
        *host_options,
        *(["--tag-output"] if settings.prefix else []),
        *inner,
    ]


def _may_run_as_root(environ: Mapping[str, str]) -> bool:
    """Return whether ``mpirun`` starts ranks as root: if it is not that of Open MPI, or two variables
    permit it."""
    permitted = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    return (
        all(environ.get(name) == "1" for name in permitted)
        or not slurm_and_mpi_queries.is_open_mpi()
    )


def replace_process(
    world: RankTopology, argv: Sequence[str], environ: Mapping[str, str], timeout_s: float
) -> NoReturn:
    """Replace this process, which another launcher has started as the rank ``world``, by the
    program ``argv``.

    Raises:
        NotStarted: the program cannot be executed.
        LaunchError: ranks cannot connect to each other within ``timeout_s`` seconds.
    """
    number = environ.get("SLURM_NODEID") if world.source == "slurm" else environ.get("GROUP_RANK")
    node_number = int(number or world.cross_rank)
    if world.source != "slurm":  # the other launcher may itself be one task of Slurm
        nodes, rest = divmod(world.size, world.local_size)
        ranks = [] if rest else [world.local_size] * nodes
        environ = slurm_task_variables.build_rank_environment(environ, world, node_number, ranks)
    program_environ = {
        **environ,
        **horovod_import.build_variables(environ),
        **build_rank_variables(world, node_number),
        rendezvous_store_client.TIMEOUT: f"{timeout_s:g}",
    }
    held: list[HeldPort] = []

    def choose_port() -> str:
        held.append(HeldPort(0.0))
        return str(held[0].number)

    if not (environ.get("MASTER_ADDR") and environ.get("MASTER_PORT")):
        host, port = rendezvous_store_client.agree_on_choice(
            world, program_environ, choose_port
        ).rsplit(":", 1)
        program_environ["MASTER_ADDR"], program_environ["MASTER_PORT"] = host, port
    if world.local_size < world.size:
        program_environ = {**build_interface_variables(environ), **program_environ}
    program_environ.setdefault("OMP_NUM_THREADS", str(count_threads_per_rank(world.local_size)))
    if world.source != "torchrun":  # its ranks share one stream, where pieces of lines would mix
        program_environ.setdefault("PYTHONUNBUFFERED", "1")
    for each in held:  # of rank 0, whose program it stays bound in
        each.leave_to_program()
    try:
        os.execvpe(argv[0], list(argv), program_environ)  # noqa: S606
    except OSError as error:
        raise NotStarted(argv[0], error) from error
