"""State of a rank between ``init`` and ``shutdown``."""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aitne.distrib import recording
from aitne.distrib.channel import ExchangeChannel, JoinedError
from aitne.distrib.control import Control
from aitne.distrib.engine import CollectiveEngine
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.execution import Execution
from aitne.distrib.meeting import connect
from aitne.distrib.record import Recorder
from aitne.distrib.transport.base import Store
from aitne.distrib.types import Kind, Request
from aitne.launch import rendezvous
from aitne.launch.world import RankTopology, detect, settled

if TYPE_CHECKING:
    from aitne.distrib.process_sets import ProcessSet

log = logging.getLogger("aitne.distrib")

NOT_INITIALISED = "Horovod has not been initialized; use hvd.init()."


class Context:
    """Context of this rank: its world, engine, process sets and connections."""

    def __init__(
        self,
        world: RankTopology,
        nodes: tuple[int, ...],
        store: Store,
        prefix: str,
        control: Control,
        secret: bytes,
    ) -> None:
        self.world = world
        self.nodes = nodes
        """Number of each rank's node."""
        self.store = store
        self.prefix = prefix
        """Prefix of keys in the store, unique for each ``init``."""
        self.control = control
        self.secret = secret
        """Secret that only the ranks of this run know."""
        self.recorder: Recorder = recording.recorder()
        self._execution = Execution(world.rank, nodes, store, prefix, self.recorder)
        self.engine = CollectiveEngine(control, self._execution)
        self.sets: Mapping[int, tuple[int, ...]] = self._execution.sets
        """Members of each process set, by its number."""
        self._closers: list[Callable[[], None]] = []

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback for the beginning of ``shutdown``; the last one is called first."""
        self._closers.append(callback)

    def open_channel(
        self, name: str, signature: Mapping[str, Any], set_id: int = 0, device: str = "cpu"
    ) -> ExchangeChannel:
        """Open a transport for its caller only. Collective among the members of the set.

        Args:
            name: Purpose of the channel, by which ranks match.
            signature: Values that every member must have in common. JSON.
            set_id: Process set of the members.
            device: ``cpu`` or ``cuda``.

        Raises:
            JoinedError: on every calling rank; they may call it again with the same name.
            HorovodInternalError: signatures differ (the message names the difference), or it cannot
                be connected.
        """
        text = json.dumps(signature, sort_keys=True)
        request = Request(Kind.CHANNEL, name, (), set_id=set_id, device=device, extra=text)
        opened = self.engine.run_data(request)
        if opened is None:
            raise JoinedError(f"{name} cannot be connected while a rank is in join().")
        number, transport = opened
        return ExchangeChannel(self.engine, number, transport, self._execution.drop)

    def close(self, reason: str = "") -> None:
        """Disconnect from the other ranks and release all resources."""
        while self._closers:
            closer = self._closers.pop()
            try:
                closer()
            except Exception:
                log.exception("A callback failed during the shutdown of Horovod")
        self.engine.close(reason)
        self._execution.close()
        self.control.goodbye()
        self.control.close()


_current: Context | None = None
_lock = threading.RLock()
_generations: dict[Store, int] = {}
_registered = False


def init(process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Connect to the other ranks. Has no effect if they are connected already.

    Args:
        process_sets: Sets to create, the same on every rank; ``"dynamic"`` sets
            ``HOROVOD_DYNAMIC_PROCESS_SETS=1`` instead.

    Raises:
        aitne.launch.errors.LaunchError: the environment is contradictory, or indicates other ranks
            without their address.
        HorovodInternalError: they did not connect.
        ValueError: a set is named twice.
    """
    global _current, _registered
    from aitne.distrib import guard  # both need a context
    from aitne.distrib import process_sets as sets

    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(
                f"process_sets is {process_sets!r}: pass a list of sets, or 'dynamic'."
            )
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        process_sets = None
    with _lock:
        if _current is not None:
            return
        context = _connected()
        _current = context
        if not _registered:
            _registered = True
            atexit.register(_leave)
        try:
            sets.initialise(list(process_sets or ()))
            guard.attach(context)
        except BaseException:
            shutdown()
            raise


def shutdown() -> None:
    """Disconnect from the other ranks. Pending collectives with this rank fail there.

    ``init`` may be called again.
    """
    _close("")


def current() -> Context:
    """Return the context. Raises ``ValueError`` before ``init`` and after ``shutdown``."""
    if _current is None:
        raise ValueError(NOT_INITIALISED)
    return _current


def is_initialized() -> bool:
    """Return whether there is a context."""
    return _current is not None


def _close(reason: str) -> None:
    global _current
    with _lock:
        context, _current = _current, None
        if context is not None:
            context.close(reason)


def _leave() -> None:
    _close(", whose program has ended")


def _connected() -> Context:
    world = detect(os.environ)
    store = rendezvous.join(world, os.environ)
    generation = _generations[store] = _generations.get(store, 0) + 1
    prefix = f"g{generation}"
    control = connect(world, store, prefix, _machine())
    try:
        nodes = _nodes(world, control)
    except BaseException:
        control.close()
        raise
    if world.source not in {"aitne", "horovod"}:
        world = settled(world, nodes)
    return Context(world, nodes, store, prefix, control, store.token.encode())


def _nodes(world: RankTopology, control: Control) -> tuple[int, ...]:
    """Return the node of each rank, numbered in order of appearance. Collective; starts reading."""
    hosts: dict[int, str] = {world.rank: _node()}
    answer: list[int] = []
    answered = threading.Event()
    lost: list[str] = []

    def told_host(sender: int, host: str) -> None:  # at rank 0, by each of the others
        hosts[sender] = host
        if len(hosts) == world.size:
            order = list(dict.fromkeys(hosts[rank] for rank in range(world.size)))
            control.broadcast("nodes", [order.index(hosts[rank]) for rank in range(world.size)])

    def told_nodes(_sender: int, nodes: list[int]) -> None:
        answer.extend(nodes)
        answered.set()

    def told_lost(rank: int, reason: str) -> None:
        lost.append(f"Rank {rank} is gone: {reason}.")
        answered.set()

    control.on("host", told_host)
    control.on("nodes", told_nodes)
    control.on_lost(told_lost)
    control.start()
    if world.rank > 0:
        control.send(0, "host", hosts[world.rank])
    elif world.size == 1:
        told_nodes(0, [0])
    answered.wait()
    if lost:
        raise HorovodInternalError(lost[0])
    return tuple(answer)


def _machine() -> str:
    """Return the identity of this machine; ranks with an equal one connect by loopback."""
    return f"{_boot()} {os.readlink('/proc/self/ns/net')}"


def _node() -> str:
    """Return the identity of this node, equal for its ranks; a node may be a simulated one."""
    return f"{socket.gethostname()} {_boot()} {os.environ.get('AITNE_NODE_RANK', '')}"


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _after_fork() -> None:
    """Reset the state in a forked child, such as a data loader's, which is not a rank."""
    global _current, _lock
    _current = None
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
