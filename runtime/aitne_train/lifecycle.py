"""Start and end of the training runtime on a rank: ``init`` and ``shutdown``."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from collections.abc import Sequence

from aitne_train import context, stall_monitor
from aitne_train.context import Context
from aitne_train.control_channel import Control
from aitne_train.control_connection import close_all_sockets, connect_ranks
from aitne_train.errors import HorovodInternalError
from aitne_train.ignored_variables import list_ignored_variables
from aitne_train.interruptible_event import Flag
from aitne_train.launcher import rendezvous_store_client
from aitne_train.launcher.rank_detection import RankTopology, detect_topology, settle_topology
from aitne_train.process_sets import ProcessSet, number_initial_sets
from aitne_train.transport.base import Store

log = logging.getLogger("aitne_train")

_lock = threading.RLock()
_generations: dict[Store, int] = {}
_registered = False
_warned: set[str] = set()


def init(process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Connect this rank to the other ranks. Has no effect if they are connected already.

    Args:
        process_sets: process sets to create, the same on every rank; or ``"dynamic"`` to allow
            adding sets later, which sets ``HOROVOD_DYNAMIC_PROCESS_SETS=1``.

    Raises:
        aitne_train.launcher.errors.LaunchError: the launcher's environment variables contradict each other,
            or indicate other ranks without an address to reach them.
        HorovodInternalError: the ranks could not be connected.
        ValueError: a process set occurs twice.
    """
    global _registered
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(
                f"process_sets is {process_sets!r}: pass a list of sets, or 'dynamic'."
            )
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        process_sets = None
    with _lock:
        if context.is_initialized():
            return
        close_all_sockets()
        here = None
        try:
            here = _open_context()
            context.replace_context(here)
            if here.world.rank == 0:
                _warn_of_ignored_variables()
            if not _registered:
                _registered = True
                atexit.register(_leave_at_exit)
            number_initial_sets(list(process_sets or ()))
            stall_monitor.start_monitoring(here)
        except BaseException:
            context.replace_context(here)  # an interrupt may have come before
            shutdown()
            raise


def _warn_of_ignored_variables() -> None:
    names = [name for name in list_ignored_variables(os.environ) if name not in _warned]
    if names:
        _warned.update(names)
        log.warning(
            "%s %s no effect in aitne_train.",
            ", ".join(names),
            "has" if len(names) == 1 else "have",
        )


def shutdown() -> None:
    """Disconnect from the other ranks. Collectives in which other ranks still wait for this rank
    fail.

    ``init`` may be called again.
    """
    _close_context("")


def _close_context(reason: str) -> None:
    with _lock:
        try:
            here = context.replace_context(None)
            if here is not None:
                here.close(reason)
        finally:
            close_all_sockets()


def _leave_at_exit() -> None:
    _close_context(", whose program has ended")


def _open_context() -> Context:
    world = detect_topology(os.environ)
    store = rendezvous_store_client.join_store(world, os.environ)
    generation = _generations[store] = _generations.get(store, 0) + 1
    control, prefix = connect_ranks(world, store, f"g{generation}", _identify_machine())
    nodes = _number_nodes(world, control)
    if world.source not in {"aitne", "horovod"}:
        world = settle_topology(world, nodes)
    return Context(world, nodes, store, prefix, control, store.token.encode())


def _number_nodes(world: RankTopology, control: Control) -> tuple[int, ...]:
    """Return the number of each rank's node, counted in order of appearance. Every rank must call
    this. It starts the reading thread of ``control``.
    """
    hosts: dict[int, str] = {world.rank: _identify_node()}
    answer: list[int] = []
    answered = Flag()
    lost: list[str] = []

    def on_host(sender: int, host: str) -> None:  # at rank 0, by each of the others
        hosts[sender] = host
        if len(hosts) == world.size:
            order = list(dict.fromkeys(hosts[rank] for rank in range(world.size)))
            control.broadcast("nodes", [order.index(hosts[rank]) for rank in range(world.size)])

    def on_nodes(_sender: int, nodes: list[int]) -> None:
        answer.extend(nodes)
        answered.set()

    def on_lost(rank: int, reason: str) -> None:
        lost.append(f"Rank {rank} is gone: {reason}.")
        answered.set()

    control.register_handler("host", on_host)
    control.register_handler("nodes", on_nodes)
    control.register_lost_handler(on_lost)
    control.start()
    if world.rank > 0:
        control.send(0, "host", hosts[world.rank])
    elif world.size == 1:
        on_nodes(0, [0])
    answered.wait()
    if lost:
        raise HorovodInternalError(lost[0])
    return tuple(answer)


def _identify_machine() -> str:
    """Return the identity of this machine's network. Ranks with equal identities can connect by
    loopback.
    """
    return f"{_read_boot_id()} {os.readlink('/proc/self/ns/net')}"


def _identify_node() -> str:
    """Return the identity of this node, which is equal for all its ranks. A launcher can simulate
    several nodes on one machine.
    """
    return f"{socket.gethostname()} {_read_boot_id()} {os.environ.get('AITNE_NODE_RANK', '')}"


def _read_boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _reset_after_fork() -> None:
    """Reset the state in a forked child process, such as a data loader's worker, because it is not
    a rank.
    """
    global _lock
    context.replace_context(None)
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)
