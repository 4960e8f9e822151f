"""State of a rank between ``init`` and ``shutdown``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from aitne.distrib import recording
from aitne.distrib.channel import ExchangeChannel, JoinedError
from aitne.distrib.control import Control
from aitne.distrib.engine import CollectiveEngine
from aitne.distrib.execution import Execution
from aitne.distrib.record import Recorder
from aitne.distrib.transport.base import Store
from aitne.distrib.types import Kind, Request
from aitne.launch.world import RankTopology

log = logging.getLogger("aitne.distrib")

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
        """Register a callback that ``shutdown`` calls first; the callback registered last is called
        first.
        """
        self._closers.append(callback)

    def open_channel(
        self, name: str, signature: Mapping[str, Any], set_id: int = 0, device: str = "cpu"
    ) -> ExchangeChannel:
        """Connect a transport for exclusive use by the caller, such as an optimizer that exchanges
        gradients without negotiating each collective. Every member of the process set must call
        this.

        Args:
            name: purpose of the channel; the ranks' calls are matched by it.
            signature: JSON values that must be equal on all members.
            set_id: number of the process set.
            device: ``cpu`` or this rank's GPU such as ``cuda:1``, where the tensors to exchange are.

        Raises:
            JoinedError: on all calling ranks, because another rank is in ``join``; they may call
                again with the same name.
            HorovodInternalError: signatures differ (the message names the difference), or the
                transport cannot be connected.
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


def current() -> Context:
    """Return the context. Raises ``ValueError`` before ``init`` and after ``shutdown``."""
    if _current is None:
        raise ValueError(NOT_INITIALISED)
    return _current


def is_initialized() -> bool:
    """Return whether there is a context."""
    return _current is not None


def replace(context: Context | None) -> Context | None:
    """Set the context of this process (None: no context) and return the previous one; for
    ``lifecycle``.
    """
    global _current
    previous, _current = _current, context
    return previous
