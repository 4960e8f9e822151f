"""Run a function on many ranks, each a new process that is not forked.

    def add(me: Rank, value: int) -> int:   # at the module's top
        return me.rank + value

    def test_add(pool: Pool) -> None:
        assert pool.run(add, 3, 10) == [10, 11, 12]

Importing torch takes seconds, so a ``Pool`` keeps its processes for the calls to come; after a call
that went wrong they are replaced. ``Pool.run`` fails the test with what every rank printed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from aitne_train.launcher.rendezvous_store_client import ADDRESSES, PREFIX, TOKEN
from aitne_train.launcher.rendezvous_store_server import RendezvousServer
from tests.support.ports import release_ports, reserve_ports
from tests.support.rank import HARNESS, INDEX, Answer, Call, Rank

__all__ = ["MpiPool", "Outcome", "Pool", "Rank", "RanksFailedError"]

ROOT = Path(__file__).resolve().parents[2]
_START_S = 60.0
_GRACE_S = 10.0
_KEEP = 4
"""The number of processes that are kept for later calls."""


class RanksFailedError(AssertionError):
    """A rank raised, died or did not end in time; the message has what each printed."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call on one rank."""

    rank: int
    value: Any
    error: str
    """The traceback, or the reason why there is no result; empty if ``value`` is the result."""
    output: str
    """The rank's output during the call."""
    died: bool


@dataclass(frozen=True)
class _Process:
    index: int
    pid: int
    connection: Connection
    log: Path

    def alive(self) -> bool:
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state not in "ZX"

    def printed(self) -> int:
        return self.log.stat().st_size

    def output(self, since: int) -> str:
        return self.log.read_bytes()[since:].decode(errors="replace")


class Pool:
    """Processes that take the part of ranks; ends them on ``close``.

    With the launcher ``mpirun`` a call's ranks are a whole MPI world, which another size ends.
    """

    def __init__(self, launcher: Literal["none", "mpirun"] = "none") -> None:
        self._launcher = launcher
        self._folder = Path(tempfile.mkdtemp(prefix="aitne-ranks-"))
        self._listener = _listening(self._folder / "socket")
        self._token = secrets.token_hex(16)
        self._store = RendezvousServer(self._token, "127.0.0.1")
        self._children: list[subprocess.Popen[bytes]] = []
        self._processes: list[_Process] = []
        self._indices = itertools.count()
        self._calls = itertools.count()

    def run(
        self,
        function: Callable[..., Any],
        size: int,
        *arguments: Any,
        nodes: Sequence[int] | None = None,
        environ: Mapping[str, str | None] | None = None,
        timeout_s: float = 60.0,
        dying: Collection[int] = (),
    ) -> list[Any]:
        """Return the results of `function(rank, *arguments)`, one for each rank.

        The result of a rank in `dying` is None.

        Args:
            function: of a module that ranks can import, by its name there.
            size: the number of ranks.
            arguments: anything that can be pickled.
            nodes: the pretended node of each rank, ascending; one node for all by default.
            environ: further variables of every rank; None removes one.
            timeout_s: ranks that still run then print their stacks and are ended.
            dying: ranks whose processes are expected to end.

        Raises:
            RanksFailedError: a rank raised, was too slow, or ended without being expected to.
        """
        outcomes = self.outcomes(
            function,
            size,
            *arguments,
            nodes=nodes,
            environ=environ,
            timeout_s=timeout_s,
            grace_s=_GRACE_S if not dying else None,
        )
        if any(not each.died if each.rank in dying else bool(each.error) for each in outcomes):
            raise RanksFailedError("\n".join(_describe(each) for each in outcomes))
        return [each.value for each in outcomes]

    def outcomes(
        self,
        function: Callable[..., Any],
        size: int,
        *arguments: Any,
        nodes: Sequence[int] | None = None,
        environ: Mapping[str, str | None] | None = None,
        timeout_s: float = 60.0,
        grace_s: float | None = None,
    ) -> list[Outcome]:
        """Run a function as `run` does, but return the outcome of each rank and raise no error.

        ``grace_s``: the seconds that the other ranks have after the first failure; None for
        ``timeout_s``.
        """
        nodes = tuple(nodes) if nodes is not None else (0,) * size
        if len(nodes) != size or list(nodes) != sorted(nodes):
            raise ValueError(f"{nodes} are not ascending nodes of {size} ranks")
        processes = self._ready(size)
        name = f"call{os.getpid()}.{id(self):x}.{next(self._calls)}"
        own = self._folder / name
        own.mkdir()
        printed = [each.printed() for each in processes]
        port = reserve_ports()
        for rank, process in enumerate(processes):
            variables = {
                **variables_of(rank, nodes),
                "MASTER_PORT": str(port),
                "AITNE_RUN_DIR": str(own),
                ADDRESSES: f"127.0.0.1:{self._store.port}",
                TOKEN: self._token,
                PREFIX: f"{name}/",
                **(environ or {}),
            }
            process.connection.send(
                Call(
                    function.__module__,
                    function.__qualname__,
                    pickle.dumps(arguments),
                    rank,
                    nodes,
                    name,
                    variables,
                )
            )
        answers = _gather(processes, timeout_s, grace_s)
        if any(answer is None or answer.error for answer in answers.values()):
            self._end(processes, with_stacks=None in answers.values())
        elif self._launcher == "none":
            self._end(processes[_KEEP:])
        release_ports(port)
        shutil.rmtree(own, ignore_errors=True)
        return [
            _outcome(rank, answers.get(process.index), process, printed[rank], timeout_s)
            for rank, process in enumerate(processes)
        ]

    def close(self) -> None:
        """End every process and remove what the pool left."""
        self._end(list(self._processes))
        self._listener.close()
        self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ready(self, size: int) -> list[_Process]:
        if gone := [each for each in self._processes if not each.alive()]:
            self._end(gone)
        if self._launcher == "mpirun":
            if len(self._processes) != size:
                self._end(list(self._processes))
                self._indices = itertools.count()
                self._start_mpi(size)
        elif (missing := size - len(self._processes)) > 0:
            for _ in range(missing):
                self._child([sys.executable], {INDEX: str(next(self._indices))})
            self._accept(missing)
        return sorted(self._processes, key=lambda each: each.index)[:size]

    def _start_mpi(self, size: int) -> None:
        argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        self._child([*argv, "-np", str(size), sys.executable], {})
        self._accept(size)

    def _child(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMIX_", "PMI_", "SLURM_", "HOROVOD_"))
        } | {
            "OMP_NUM_THREADS": "1",
            # This checkout, which need not be the one that is installed.
            "PYTHONPATH": f"{ROOT / 'runtime'}:{ROOT}",
            HARNESS: str(self._folder),
            **variables,
        }
        with open(self._folder / "start.log", "ab") as log:
            self._children.append(
                subprocess.Popen(
                    [*argv, "-c", "from tests.support.rank import main; main()"],
                    cwd=ROOT,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _accept(self, count: int) -> None:
        for _ in range(count):
            try:
                accepted, _address = self._listener.accept()
            except TimeoutError:
                started = (self._folder / "start.log").read_text(errors="replace")
                raise RanksFailedError(f"A rank did not start:\n{started}") from None
            accepted.setblocking(True)
            connection = Connection(accepted.detach())
            index, pid = connection.recv()
            log = self._folder / f"{index}.log"
            self._processes.append(_Process(index, pid, connection, log))

    def _end(self, processes: Sequence[_Process], with_stacks: bool = False) -> None:
        if self._launcher == "mpirun":
            processes = list(self._processes)
        if with_stacks:
            # faulthandler prints the stacks of every thread on its way out.
            _signal(processes, signal.SIGABRT)
            _wait_gone(processes, 5.0)
        _signal(processes, signal.SIGKILL)
        _wait_gone(processes, 30.0)
        for each in processes:
            each.connection.close()
            self._processes.remove(each)
        pids = {each.pid for each in processes}
        for child in list(self._children):
            if child.pid in pids or self._launcher == "mpirun" or child.poll() is not None:
                if self._launcher == "mpirun":
                    child.terminate()
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                self._children.remove(child)


class MpiPool:
    """Ranks that ``mpirun`` started: a world for each size, which stays for the calls to come."""

    def __init__(self) -> None:
        self._worlds: dict[int, Pool] = {}

    def run(
        self, function: Callable[..., Any], size: int, *arguments: Any, **options: Any
    ) -> list[Any]:
        """Run a function on a world of that size, as `Pool.run` does."""
        return self._world(size).run(function, size, *arguments, **options)

    def outcomes(
        self, function: Callable[..., Any], size: int, *arguments: Any, **options: Any
    ) -> list[Outcome]:
        """Return the outcomes of all ranks, as `Pool.outcomes` does."""
        return self._world(size).outcomes(function, size, *arguments, **options)

    def close(self) -> None:
        """End the processes of every world."""
        for world in self._worlds.values():
            world.close()

    def _world(self, size: int) -> Pool:
        if size not in self._worlds:
            self._worlds[size] = Pool("mpirun")
        return self._worlds[size]


def variables_of(rank: int, nodes: Sequence[int]) -> dict[str, str]:
    """Return the variables that a launcher sets for a rank; ranks are numbered node by node."""
    node = nodes[rank]
    local_rank = sum(1 for each in nodes[:rank] if each == node)
    numbers = sorted(set(nodes))
    with_my_local = [each for each in numbers if nodes.count(each) > local_rank]
    size, local_size = len(nodes), nodes.count(node)
    known = {
        "HOROVOD_RANK": rank,
        "HOROVOD_SIZE": size,
        "HOROVOD_LOCAL_RANK": local_rank,
        "HOROVOD_LOCAL_SIZE": local_size,
        "HOROVOD_CROSS_RANK": with_my_local.index(node),
        "HOROVOD_CROSS_SIZE": len(with_my_local),
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": local_size,
        "GROUP_RANK": numbers.index(node),
        "MASTER_ADDR": "127.0.0.1",
        "AITNE_NODE_RANK": numbers.index(node),
        "AITNE_RUN_RESTARTS": 0,
    }
    return {name: str(value) for name, value in known.items()}


def _gather(
    processes: Sequence[_Process], timeout_s: float, grace_s: float | None
) -> dict[int, Answer | None]:
    """Return the answers by index; None for a rank that is still busy, no entry for one that died."""
    answers: dict[int, Answer | None] = {}
    waiting = {each.connection: each for each in processes}
    until = time.monotonic() + timeout_s
    while waiting and (left := until - time.monotonic()) > 0:
        for ready in wait(list(waiting), left):
            assert isinstance(ready, Connection)
            process = waiting.pop(ready)
            failed = True
            try:
                answer: Answer = ready.recv()
                answers[process.index] = answer
                failed = bool(answer.error)
            except (EOFError, ConnectionError):
                answers[process.index] = Answer(None, "its process ended")
            if failed and grace_s is not None:
                until = min(until, time.monotonic() + grace_s)
    for process in waiting.values():
        answers[process.index] = None
    return answers


def _outcome(
    rank: int, answer: Answer | None, process: _Process, since: int, timeout_s: float
) -> Outcome:
    output = process.output(since)
    if answer is None:
        return Outcome(rank, None, f"did not end (the limit is {timeout_s:g} s)", output, False)
    if answer.value is None:
        died = answer.error == "its process ended"
        return Outcome(rank, None, answer.error, output, died)
    return Outcome(rank, pickle.loads(answer.value), "", output, False)


def _describe(outcome: Outcome) -> str:
    verdict = outcome.error or f"returned {outcome.value!r:.200}"
    return f"--- rank {outcome.rank}: {verdict.rstrip()}\n{outcome.output}"


def _signal(processes: Sequence[_Process], number: signal.Signals) -> None:
    for each in processes:
        if each.alive():
            os.kill(each.pid, number)


def _wait_gone(processes: Sequence[_Process], timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while any(each.alive() for each in processes) and time.monotonic() < until:
        time.sleep(0.01)


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)
    listener.settimeout(_START_S)
    return listener
