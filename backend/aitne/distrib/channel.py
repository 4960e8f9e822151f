"""Separate transport for exchanges in an order that is agreed on once, as in an optimizer."""

from __future__ import annotations

from collections.abc import Callable

from aitne.distrib.engine import CollectiveEngine
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.standin import StepCallback
from aitne.distrib.transport.base import Transport, TransportError


class JoinedError(HorovodInternalError):
    """Error: a rank is in ``join`` and cannot connect; no collective has failed."""


class ExchangeChannel:
    """Channel, created by ``Context.open_channel``; its caller ensures that all members use it
    alike."""

    def __init__(
        self,
        engine: CollectiveEngine,
        number: int,
        transport: Transport,
        drop: Callable[[Transport], None],
    ) -> None:
        self.transport = transport
        self.limit = engine.limit
        """Context manager around each wait in the transport."""
        self._engine = engine
        self._number = number
        self._drop = drop

    def begin(self, step: int) -> None:
        """Record that this rank starts exchange step ``step``; does not wait.

        Raises:
            HorovodInternalError: a rank is gone, or Horovod has been shut down.
        """
        self._engine.begin(self._number, step)

    def on_joined(self, callback: StepCallback | None) -> None:
        """Call ``callback(n)`` when other ranks exchange step n while this rank is in ``join``.

        It is called on a thread of the engine, and takes part with zeros.
        """
        self._engine.on_joined(self._number, callback)

    def failure(self, error: TransportError) -> HorovodInternalError:
        """Return the exception for an error of the transport; it names the lost rank."""
        return self._engine.failure(error)

    def close(self) -> None:
        """Release the transport of this channel."""
        self._engine.on_joined(self._number, None)
        self._drop(self.transport)
