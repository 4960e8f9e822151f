"""A transport of its own for those who exchange in an order agreed on once, as an optimizer does."""

from __future__ import annotations

from collections.abc import Callable

from aitne.distrib.engine import Engine
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.standin import StepCallback
from aitne.distrib.transport.base import Transport, TransportError


class JoinedError(HorovodInternalError):
    """A rank is in ``join`` and cannot connect. Nothing has failed."""


class Channel:
    """Made by ``Context.open_channel``. Its user sees to it that all members use it alike."""

    def __init__(
        self, engine: Engine, number: int, transport: Transport, drop: Callable[[Transport], None]
    ) -> None:
        self.transport = transport
        self.limit = engine.limit
        """Around each wait in the transport."""
        self._engine = engine
        self._number = number
        self._drop = drop

    def begin(self, step: int) -> None:
        """Say that this rank begins exchange step ``step``; waits for nobody.

        Raises:
            HorovodInternalError: a rank is gone, or Horovod has been shut down.
        """
        self._engine.begin(self._number, step)

    def on_joined(self, callback: StepCallback | None) -> None:
        """While this rank is in ``join`` and others exchange step n, call ``callback(n)``.

        It is called on a thread of the engine's, and takes part with zeros.
        """
        self._engine.on_joined(self._number, callback)

    def failure(self, error: TransportError) -> HorovodInternalError:
        """What to raise when the transport raised: it names the rank that is gone."""
        return self._engine.failure(error)

    def close(self) -> None:
        """Give the transport back."""
        self._engine.on_joined(self._number, None)
        self._drop(self.transport)
