"""Separate transport for exchanges whose order the ranks agree on in advance, such as the gradient
exchange of an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable

from aitne_train.collective_engine import CollectiveEngine
from aitne_train.errors import HorovodInternalError
from aitne_train.joined_rank_proxy import StepCallback
from aitne_train.transport.base import Transport, TransportError


class JoinedError(HorovodInternalError):
    """Error: a channel cannot be opened because a rank has called ``join`` and waits there; no
    collective has failed.
    """


class ExchangeChannel:
    """Transport for exclusive use by one component, such as an optimizer; created by
    ``Context.open_channel``. On all ranks of the process set the component must make the same calls
    in the same order.
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
        """Context manager for each wait in the transport; it limits how long an exchange step may
        wait."""
        self._engine = engine
        self._number = number
        self._drop = drop

    def begin_step(self, step: int) -> None:
        """Record that this rank starts the exchange step number ``step``; returns immediately.

        Raises:
            HorovodInternalError: the connection to a rank is lost, or the runtime was shut down.
        """
        self._engine.begin_step(self._number, step)

    def check(self) -> None:
        """Raise ``HorovodInternalError`` if the connection to a rank is lost or the runtime was
        shut down. An exchange that completes on the GPU after that may have been aborted.
        """
        self._engine.check()

    def on_joined(self, callback: StepCallback | None) -> None:
        """Register ``callback(n)``, which is called when other ranks start exchange step n while
        this rank is in ``join``; None removes the callback.

        The callback takes part in that exchange with zeros, on a thread of the engine.
        """
        self._engine.on_joined(self._number, callback)

    def make_failure(self, error: TransportError) -> HorovodInternalError:
        """Return the exception to raise for an error of the transport; its message names the lost
        rank.
        """
        return self._engine.make_failure(error)

    def close(self) -> None:
        """Release the transport of this channel."""
        self._engine.on_joined(self._number, None)
        self._drop(self.transport)
