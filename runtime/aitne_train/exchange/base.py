"""Interface of the strategies that exchange gradients between ranks. Each other public module of
this package implements one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from aitne_train.collective_record import Recorder
from aitne_train.compress.base import BucketCompressor
from aitne_train.errors import HorovodInternalError
from aitne_train.transport.base import Reduction, Transport, TransportError


@dataclass
class Bucket:
    """Group of gradients that are exchanged by one collective, as parts of one flat tensor."""

    index: int
    """Number of the bucket, from 0. All ranks exchange the buckets in this order."""
    flat: torch.Tensor
    """One-dimensional tensor with the gradients of all parameters."""
    parameters: Sequence[torch.nn.Parameter]
    """Parameters whose gradients are in the bucket."""
    names: Sequence[str]
    """Names of these parameters."""
    offsets: Sequence[int]
    """Offset of each parameter's gradient in ``flat``, in elements. The gradients fill ``flat``
    completely."""
    shape: tuple[int, ...] = ()
    """Shape in which a compressor gets ``flat``: the parameter's shape if the bucket has only one.
    Empty: one-dimensional."""


@dataclass(frozen=True, kw_only=True)
class StrategySettings:
    """Settings of an exchange strategy: transport, compressor, reduction and factors."""

    transport: Transport
    """Transport for the buckets; nothing else uses it while a step's buckets are being exchanged.
    """
    recorder: Recorder
    """Receiver of a record for each collective."""
    compressor: Callable[[], BucketCompressor]
    """Function that creates the compressor of a bucket."""
    failure: Callable[[TransportError], HorovodInternalError]
    """Function that returns the exception to raise for an error of the transport; the exception
    names the lost rank."""
    error_feedback: bool = False
    """Whether the compression errors of a step are added to the next step's gradients."""
    op: Reduction = Reduction.SUM
    """Reduction over the ranks."""
    prescale: float = 1.0
    """Factor by which every gradient is multiplied before it is sent."""
    postscale: float = 1.0
    """Factor by which every gradient is multiplied after the exchange."""
    overlap: bool = True
    """Whether buckets are exchanged while backward runs; False if a rank has only one processor."""


class ExchangeStrategy(Protocol):
    """Interface of exchange strategies, which determine how an optimizer exchanges its buckets of
    gradients. Each optimizer creates one from ``StrategySettings``.

    ``DistributedOptimizer`` calls the methods, some from hooks during backward, but only from one
    thread at a time.
    """

    name: ClassVar[str]
    fill_scale: float
    """Factor by which gradients are multiplied while they are copied into their bucket, where it
    costs nothing; ``on_bucket`` gets them already multiplied."""

    def setup(self, buckets: Sequence[Bucket]) -> None:
        """Prepare to exchange these buckets. Called before the first step, and again when the
        gradients are divided into other buckets. Every rank must call this.
        """
        ...

    def on_bucket(self, bucket: Bucket) -> None:
        """Start the exchange of a bucket that contains all its gradients. Called in the order of
        the buckets.

        May return before the bucket is exchanged.
        """
        ...

    def on_step(self) -> None:
        """Complete the exchange of the step, so that every bucket contains the gradients that the
        optimizer applies.

        Raises:
            HorovodInternalError: the connection to a rank is lost.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs, such as compression errors. It is stored by
        parameter, because the buckets of the next run may differ.
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        ...

    def close(self) -> None:
        """Stop the threads of the strategy. Never raises."""
        ...
