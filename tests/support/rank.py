"""The process of a rank, which ``tests.support.ranks`` starts, and the argument of its functions."""

from __future__ import annotations

import _thread
import faulthandler
import importlib
import os
import pickle
import queue
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection as ipc
from typing import TYPE_CHECKING, Any

from aitne_train.launcher.rendezvous_store_client import RendezvousClient

if TYPE_CHECKING:
    from aitne_train.transport.base import Group

HARNESS = "AITNE_TEST_HARNESS"
"""The variable with the folder of the harness: its socket and the output of ranks."""
INDEX = "AITNE_TEST_INDEX"
"""The variable with the index of a process of the harness; under `mpirun`, its rank decides."""


@dataclass
class Rank:
    """The rank that a function runs on; the function's first argument."""

    rank: int
    nodes: tuple[int, ...]
    """The pretended node of every rank."""
    store: RendezvousClient
    """The store that ranks exchange values in; the keys are unique to one call."""
    call: str
    """A name that is unique to the call in the test run."""
    _groups: dict[tuple[int, ...], int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.nodes)

    def group(self, ranks: tuple[int, ...] | None = None, timeout_s: float = 60.0) -> Group:
        """Return a group of these ranks, by default of all, to connect a transport with.

        Each call returns a new group; all members call in the same order.
        """
        from aitne_train.transport.base import Group

        members = tuple(range(self.size)) if ranks is None else ranks
        count = self._groups[members] = self._groups.get(members, 0) + 1
        name = f"{self.call}-{'.'.join(map(str, members))}-{count}"
        nodes = tuple(self.nodes[each] for each in members)
        return Group(name, members.index(self.rank), members, nodes, self.store, timeout_s)


@dataclass(frozen=True)
class Call:
    """A call that the harness asks of one rank; the function is named, so that both import it."""

    module: str
    function: str
    arguments: bytes
    rank: int
    nodes: tuple[int, ...]
    name: str
    environ: Mapping[str, str | None]


@dataclass(frozen=True)
class Answer:
    """The answer of a rank to a call: the pickled value, or the error."""

    value: bytes | None
    error: str = ""


def main() -> None:
    """Do one call after another until the harness is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    index = int(os.environ.get(INDEX) or os.environ["OMPI_COMM_WORLD_RANK"])
    folder = os.environ[HARNESS]
    log = os.open(f"{folder}/{index}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(all_threads=True)
    connection = ipc.Client(f"{folder}/socket", "AF_UNIX")
    connection.send((index, os.getpid()))
    calls: queue.Queue[Call] = queue.Queue()
    # Not by ``threading``: it lists the program's own threads, and this one is none.
    _thread.start_new_thread(_receive, (connection, calls))
    while True:
        answer = _do(calls.get())
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(answer)


def _receive(connection: ipc.Connection, calls: queue.Queue[Call]) -> None:
    while True:
        try:
            calls.put(connection.recv())
        except (EOFError, OSError):
            # Without the harness, the result that the rank waits for is of no use.
            os.kill(os.getpid(), signal.SIGKILL)


def _do(call: Call) -> Answer:
    before = dict(os.environ)
    for name, value in call.environ.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(call.module), call.function)
        me = Rank(call.rank, call.nodes, RendezvousClient.from_environ(os.environ), call.name)
        return Answer(pickle.dumps(function(me, *pickle.loads(call.arguments))))
    except BaseException:  # noqa: BLE001 - whatever a test raises is the harness's to show
        return Answer(None, traceback.format_exc())
    finally:
        os.environ.clear()
        os.environ.update(before)
