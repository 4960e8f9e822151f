"""Separate transport for exchanges in an order that is agreed on once, as in an optimizer."""

from __future__ import annotations

from collections.abc import Callable

from aitne.distrib.engine import CollectiveEngine
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.standin import StepCallback
from aitne.distrib.transport.base import Transport, TransportError


class JoinedError(HorovodInternalError):
    """Error: a channel cannot be connected because a rank is in ``join``; no collective
    has failed.
    """


class ExchangeChannel:
    """Transport for exclusive use by one component, such as an optimizer, created by
    ``Context.open_channel``. The component must make the same calls on all members.
    """

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

    def check(self) -> None:
        """Raise ``HorovodInternalError`` if a rank is gone, or Horovod has been shut down: an
        exchange that ends on a GPU then may have been aborted.
        """
        self._engine.check()

    def on_joined(self, callback: StepCallback | None) -> None:
        """Register ``callback(n)``, which is called when other ranks exchange step n while this
        rank is in ``join``; None removes it.

        The callback takes part in that exchange with zeros, on a thread of the engine.
        """
        self._engine.on_joined(self._number, callback)

    def failure(self, error: TransportError) -> HorovodInternalError:
        """Return the exception to raise for an error of the transport; it names the lost rank."""
        return self._engine.failure(error)

    def close(self) -> None:
        """Release the transport of this channel."""
        self._engine.on_joined(self._number, None)
        self._drop(self.transport)
