"""Start of one node's ranks as processes, and notification when each of them ends."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading

from aitne_train.launcher import horovod_import
from aitne_train.launcher.available_cpu_count import count_available_cpus
from aitne_train.launcher.cleanup_process import MARK, CleanupProcess
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.output_relay import OutputRelay, RankStream

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable, Mapping, Sequence

    from aitne_train.launcher.rank_detection import RankTopology

_EVERY_SIGNAL = [number for number in range(1, 32) if number not in (9, 19)]
_OF_OUTER_LAUNCHERS = (
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
    "PMIX_",
    "PMI_",
    "TORCHELASTIC_",
)
"""Prefixes of variables of other launchers, which ranks do not inherit: with them a rank could
connect to the other launcher's server as one of its processes."""
_LAST_S = 5.0
_OF_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of a shell for a program that does not exist, or that cannot be run."""


class NotStarted(LaunchError):
    """Error: the program of the ranks cannot be run on this node."""

    def __init__(self, program: str, error: OSError) -> None:
        advice = "Give a program of this node, with its path or in PATH"
        if error.errno in _OF_LIMITS:
            advice = "Start fewer ranks here, or raise the limits (ulimit -n, ulimit -u, memory)"
        super().__init__(f"{program} cannot be started: {error.strerror}. {advice}")
        self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED


class RankProcesses:
    """Rank processes that are started together on one node. After a restart of the ranks, another
    instance is used.

    Args:
        keeper: process that kills the ranks if the launcher is killed; their process groups are
            registered with it.
        on_ended: called, from a separate thread for each rank, with the rank and its exit code, or
            128 + n if it was ended by signal n.
    """

    def __init__(self, keeper: CleanupProcess, on_ended: Callable[[int, int], None]) -> None:
        self._keeper = keeper
        self._ended = on_ended
        self._pids: dict[int, int] = {}
        self._over: set[int] = set()
        self._relay: OutputRelay | None = None
        self._lock = threading.RLock()

    def start(
        self,
        argv: Sequence[str],
        environments: Mapping[int, Mapping[str, str]],
        *,
        prefix: bool,
        cpus: Sequence[Sequence[int]] = (),
        stdin_rank: int,
    ) -> None:
        """Start one process for each rank.

        Args:
            argv: program and arguments.
            environments: environment variables by rank.
            prefix: whether the number of the rank is put before each line of output.
            cpus: CPUs that each rank is bound to; empty: ranks are not bound.
            stdin_rank: rank that gets this process's standard input, unless that is a terminal.

        Raises:
            NotStarted: there is no such program, or it cannot be run. Ranks that were started
                already are killed.
        """
        streams: list[RankStream] = []
        own_cpus = os.sched_getaffinity(0)
        try:
            for number, (rank, environment) in enumerate(environments.items()):
                if cpus:
                    os.sched_setaffinity(0, cpus[number])
                reads = rank == stdin_rank and not os.isatty(0)
                self._start_rank(rank, argv, environment, streams, prefix=prefix, reads=reads)
        except OSError as error:
            self.signal_ranks(signal.SIGKILL)
            raise NotStarted(argv[0], error) from error
        finally:
            if cpus:
                os.sched_setaffinity(0, own_cpus)
            self._relay = OutputRelay(streams, at_once=len(environments) == 1 and not prefix)
            for rank, pid in self._pids.items():
                threading.Thread(
                    target=self._wait_for_rank,
                    args=(rank, pid),
                    name=f"aitne-rank-{rank}",
                    daemon=True,
                ).start()

    def _start_rank(
        self,
        rank: int,
        argv: Sequence[str],
        environment: Mapping[str, str],
        streams: list[RankStream],
        *,
        prefix: bool,
        reads: bool,
    ) -> None:
        ends: list[int] = []
        actions: list[tuple[object, ...]] = []
        if not reads:
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        for target in (1, 2):
            source, end = os.pipe()
            ends.append(end)
            streams.append(RankStream(rank, source, target, b"[%d] " % rank if prefix else b""))
            actions.append((os.POSIX_SPAWN_DUP2, end, target))
        try:
            pid = os.posix_spawnp(
                argv[0],
                list(argv),
                dict(environment),
                file_actions=actions,
                setpgroup=0,
                setsigmask=[],
                setsigdef=_EVERY_SIGNAL,
            )
        finally:
            for end in ends:
                os.close(end)
        with self._lock:
            self._pids[rank] = pid
        self._keeper.add_group(pid)

    def _wait_for_rank(self, rank: int, pid: int) -> None:
        # It is collected only at the end: until then its process group's number is not reused.
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if info is None:
            raise RuntimeError(f"process {pid} cannot be waited for")
        exited = info.si_code == os.CLD_EXITED
        with self._lock:
            self._over.add(rank)
        self._ended(rank, info.si_status if exited else 128 + info.si_status)

    @property
    def has_running(self) -> bool:
        """Return whether at least one rank has not ended."""
        with self._lock:
            return len(self._over) < len(self._pids)

    def signal_ranks(self, number: int) -> None:
        """Send the signal ``number`` to all ranks; SIGKILL also to the processes that they
        started."""
        with self._lock:
            for rank, pid in self._pids.items():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if number == signal.SIGKILL:
                        os.killpg(pid, number)
                    elif rank not in self._over:
                        os.kill(pid, number)

    def last_lines(self, rank: int) -> list[bytes]:
        """Return the last lines of output of an ended rank."""
        return (
            self._relay.wait_for_last_lines(rank, within_s=0.5) if self._relay is not None else []
        )

    def clean_up(self) -> None:
        """End the processes that ended ranks have left, forward the last output, and collect the
        ranks' exit codes."""
        self._keeper.end_processes()
        if self._relay is not None:
            self._relay.finish(within_s=_LAST_S)
        with self._lock:
            for pid in self._pids.values():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
                self._keeper.remove_group(pid)
            self._pids.clear()
            self._over.clear()


def build_rank_variables(world: RankTopology, node: int) -> dict[str, str]:
    """Return the environment variables that tell a rank its position, with the names of Horovod and
    torch. ``node`` is the number of its node."""
    numbers = {
        "HOROVOD_RANK": world.rank,
        "HOROVOD_SIZE": world.size,
        "HOROVOD_LOCAL_RANK": world.local_rank,
        "HOROVOD_LOCAL_SIZE": world.local_size,
        "HOROVOD_CROSS_RANK": world.cross_rank,
        "HOROVOD_CROSS_SIZE": world.cross_size,
        "RANK": world.rank,
        "WORLD_SIZE": world.size,
        "LOCAL_RANK": world.local_rank,
        "LOCAL_WORLD_SIZE": world.local_size,
        "GROUP_RANK": node,
        "AITNE_NODE_RANK": node,
    }
    return {name: str(number) for name, number in numbers.items()}


def build_environment(
    environ: Mapping[str, str], run_id: str, local_size: int, more: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment variables of a rank: those of the launcher, without the variables of
    other launchers, and ``more``.

    ``run_id`` identifies the run, and ``local_size`` is the number of ranks on this node, from
    which ``OMP_NUM_THREADS`` is derived.
    """
    base = {
        name: value for name, value in environ.items() if not name.startswith(_OF_OUTER_LAUNCHERS)
    }
    base.setdefault("OMP_NUM_THREADS", str(count_threads_per_rank(local_size)))
    # A pipe makes Python hold prints back, and the last ones of a rank that is killed would be lost.
    base.setdefault("PYTHONUNBUFFERED", "1")
    return {**base, **horovod_import.build_variables(base), MARK: run_id, **more}


def count_threads_per_rank(ranks: int) -> int:
    """Return the number of this node's CPUs for each of ``ranks`` ranks, at least 1."""
    return max(1, count_available_cpus() // ranks)


def build_own_command() -> list[str]:
    """Return the command that starts this launcher's program in another process."""
    program = sys.argv[0]
    if program.endswith(".pyz"):
        return [sys.executable, os.path.abspath(program)]
    return [sys.executable, "-m", "aitne_train.launcher"]
