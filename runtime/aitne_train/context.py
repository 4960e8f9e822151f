"""Everything that a rank has between ``init`` and ``shutdown``."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from aitne_train import abandoned_collectives, record_ring
from aitne_train.collective_engine import CollectiveEngine
from aitne_train.collective_record import Recorder
from aitne_train.collective_request import Kind, Request
from aitne_train.control_channel import Control
from aitne_train.exchange_channel import ExchangeChannel, JoinedError
from aitne_train.execution import Execution
from aitne_train.launcher.rank_detection import RankTopology
from aitne_train.transport.base import Store

log = logging.getLogger("aitne_train")

NOT_INITIALISED = "Horovod has not been initialized; use hvd.init()."


class Context:
    """Everything that exists on this rank between ``init`` and ``shutdown``: its position among the
    ranks, the engine, the process sets and the connections.
    """

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
        """For each rank, the number of its node."""
        self.store = store
        self.prefix = prefix
        """Prefix of the keys that the ranks use in the rendezvous store; a new one for each
        ``init``."""
        self.control = control
        self.secret = secret
        """Secret known only to the ranks of this run; it authenticates pickled objects."""
        self.recorder: Recorder = record_ring.create_recorder()
        self._execution = Execution(world.rank, nodes, store, prefix, self.recorder)
        self.engine = CollectiveEngine(control, self._execution)
        self.sets: Mapping[int, tuple[int, ...]] = self._execution.sets
        """Ranks of each process set, by the number of the set."""
        self._closers: list[Callable[[], None]] = []

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback for ``shutdown``, which calls all callbacks before it disconnects, in
        reverse order of their registration.
        """
        self._closers.append(callback)

    def open_channel(
        self, name: str, signature: Mapping[str, Any], set_id: int = 0, device: str = "cpu"
    ) -> ExchangeChannel:
        """Connect a transport for exclusive use by the caller, such as an optimizer that exchanges
        gradients without negotiating each collective. Every rank of the process set must call this.

        Args:
            name: name by which the calls of the ranks are matched.
            signature: JSON values that must be equal on all ranks of the set.
            set_id: number of the process set.
            device: ``cpu``, or this rank's GPU such as ``cuda:1``, on which the tensors to exchange
                are.

        Raises:
            JoinedError: another rank is in ``join``; raised on all calling ranks, which may call
                again with the same name.
            HorovodInternalError: signatures differ (the message names the difference), or the
                transport cannot be connected.
        """
        text = json.dumps(signature, sort_keys=True)
        request = Request(Kind.CHANNEL, name, (), set_id=set_id, device=device, extra=text)
        opened = self.engine.run_for_data(request)
        if opened is None:
            raise JoinedError(f"{name} cannot be connected while a rank is in join().")
        number, transport = opened
        return ExchangeChannel(self.engine, number, transport, self._execution.close_transport)

    def close(self, reason: str = "") -> None:
        """Call the callbacks of ``on_close``, disconnect from the other ranks and release all
        resources. ``reason`` is appended to the message that the other ranks get.
        """
        # Also after an interrupt everything is closed: the other ranks must not wait for this one.
        with contextlib.ExitStack() as last:
            last.callback(self.control.close)
            last.callback(self.control.announce_end)
            last.callback(self._execution.close)
            last.callback(self.engine.close, reason)
            closers, self._closers = self._closers, []
            for closer in closers:
                last.callback(_call_closer, closer)


def _call_closer(closer: Callable[[], None]) -> None:
    try:
        closer()
    except Exception as error:
        if abandoned_collectives.is_foreign(error):
            raise
        log.exception("A callback failed during the shutdown of Horovod")


_current: Context | None = None


def require_context() -> Context:
    """Return the context of this process.

    Raises ``ValueError`` before ``init`` and after ``shutdown``.
    """
    if _current is None:
        raise ValueError(NOT_INITIALISED)
    return _current


def find_context() -> Context | None:
    """Return the context of this process; None before ``init`` and after ``shutdown``."""
    return _current


def is_initialized() -> bool:
    """Return whether this process has a context: ``init`` was called without a later ``shutdown``."""
    return _current is not None


def replace_context(context: Context | None) -> Context | None:
    """Set the context of this process (None: no context) and return the previous one. Only
    ``lifecycle`` calls this.
    """
    global _current
    previous, _current = _current, context
    abandoned_collectives.set_run(None if context is None else context.engine)
    return previous
