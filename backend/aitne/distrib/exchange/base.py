"""How gradients are exchanged between ranks: one file of this package is one strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from aitne.distrib.compress.base import Compressor
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.record import Recorder
from aitne.distrib.transport.base import Reduction, Transport, TransportError


@dataclass
class Bucket:
    """Gradients that travel together, flat in one buffer."""

    index: int
    """From 0. Buckets are exchanged in this order on every rank."""
    flat: torch.Tensor
    parameters: Sequence[torch.nn.Parameter]
    names: Sequence[str]
    offsets: Sequence[int]
    """Where each parameter's gradient begins in ``flat``, in elements; they fill it."""
    shape: tuple[int, ...] = ()
    """What ``flat`` looks like to a compressor: a parameter's own shape where it is alone. Empty: flat."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a strategy is made from."""

    transport: Transport
    """Nobody else uses it while a step's buckets are under way."""
    recorder: Recorder
    compressor: Callable[[], Compressor]
    """Makes one for a bucket."""
    failure: Callable[[TransportError], HorovodInternalError]
    """What to raise when the transport raised: it names the rank that is gone."""
    error_feedback: bool = False
    """Whether what compressors lose is sent with the next step's gradients."""
    op: Reduction = Reduction.SUM
    prescale: float = 1.0
    """Every gradient is multiplied with this before it is sent."""
    postscale: float = 1.0
    """And with this afterwards."""
    overlap: bool = True
    """Whether buckets are exchanged while backward goes on; not where a rank has one processor."""


class ExchangeStrategy(Protocol):
    """Made for one optimizer, from ``Settings``. ``DistributedOptimizer`` calls it; hooks run during
    backward, all from one thread at a time."""

    name: ClassVar[str]
    fill_scale: float
    """What gradients are multiplied with while they are copied into their bucket, which costs
    nothing there: ``on_bucket`` finds them scaled."""

    def setup(self, buckets: Sequence[Bucket]) -> None:
        """Before the first step, and when buckets were made anew. Collective."""
        ...

    def on_bucket(self, bucket: Bucket) -> None:
        """All gradients of the bucket are there, and of those before it. May return before they are
        exchanged."""
        ...

    def on_step(self) -> None:
        """Called before the optimizer applies gradients: every bucket holds what is to be applied.

        Raises:
            HorovodInternalError: a peer is gone.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, such as residuals. By parameter, as the next run's buckets may differ."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what ``state_dict`` gave."""
        ...

    def close(self) -> None:
        """End its threads. Never raises."""
        ...
