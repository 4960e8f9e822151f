"""Interface of strategies, which exchange gradients between ranks; each file of this package is
one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from aitne.distrib.compress.base import BucketCompressor
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.record import Recorder
from aitne.distrib.transport.base import Reduction, Transport, TransportError


@dataclass
class Bucket:
    """A group of gradients that one collective exchanges, as one flat tensor with the place of each
    gradient.
    """

    index: int
    """Number of the bucket from 0. Buckets are exchanged in this order on every rank."""
    flat: torch.Tensor
    parameters: Sequence[torch.nn.Parameter]
    names: Sequence[str]
    offsets: Sequence[int]
    """Offset of each parameter's gradient in ``flat``, in elements; they fill it completely."""
    shape: tuple[int, ...] = ()
    """Shape of ``flat`` for a compressor: a parameter's own if it is alone in the bucket. Empty:
    flat."""


@dataclass(frozen=True, kw_only=True)
class StrategySettings:
    """Everything that an exchange strategy needs: transport, compressor, reduction and scales."""

    transport: Transport
    """Transport, which has no other user while a step's buckets are being exchanged."""
    recorder: Recorder
    compressor: Callable[[], BucketCompressor]
    """Function that creates the compressor of a bucket."""
    failure: Callable[[TransportError], HorovodInternalError]
    """Function that returns the exception for a transport's error; it names the lost rank."""
    error_feedback: bool = False
    """Whether compression errors are sent with the next step's gradients."""
    op: Reduction = Reduction.SUM
    prescale: float = 1.0
    """Factor of every gradient before it is sent."""
    postscale: float = 1.0
    """Factor of every gradient after the exchange."""
    overlap: bool = True
    """Whether buckets are exchanged during backward; False if a rank has one processor."""


class ExchangeStrategy(Protocol):
    """Interface of exchange strategies: how an optimizer exchanges its buckets of gradients. Each
    optimizer creates one from ``StrategySettings``.

    ``DistributedOptimizer`` calls it; hooks run during backward, from one thread at a time.
    """

    name: ClassVar[str]
    fill_scale: float
    """Factor of gradients while they are copied into their bucket, where it costs nothing:
    ``on_bucket`` receives them scaled."""

    def setup(self, buckets: Sequence[Bucket]) -> None:
        """Prepare to exchange these buckets; called before the first step, and when the division
        into buckets has changed. Every rank must call this.
        """
        ...

    def on_bucket(self, bucket: Bucket) -> None:
        """Start the exchange of a bucket that is complete, as all earlier buckets are.

        May return before the bucket is exchanged.
        """
        ...

    def on_step(self) -> None:
        """Complete the exchange before the optimizer applies gradients.

        Every bucket then contains the gradients to apply.

        Raises:
            HorovodInternalError: a peer is gone.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs, such as compression errors, by parameter,
        because the next run's buckets may differ.
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        ...

    def close(self) -> None:
        """Stop the threads of the strategy. Never raises."""
        ...
