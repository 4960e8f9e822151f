"""Record of one executed collective, which the profile, the performance predictor and the
monitoring of stalls share.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class CollectiveRecord(NamedTuple):
    """Record of one collective that this rank has executed. Times are values of
    ``time.monotonic_ns()``.
    """

    op: str
    """Name of the operation: ``allreduce``, ``allgather``, ``broadcast``, ``alltoall``,
    ``reducescatter`` or ``barrier``, or one of the marks in ``record_ring``."""
    nbytes: int
    """Number of bytes that this rank contributes to the collective."""
    ranks: int
    """Number of ranks that took part."""
    t0_ns: int
    """Start of the collective."""
    t1_ns: int
    """End of the collective."""


class Recorder(Protocol):
    """Interface of an object that receives a record of each executed collective. Methods may be
    called from any thread.
    """

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Add a record of a collective with the fields of ``CollectiveRecord``; this takes less
        than a microsecond.
        """
        ...

    def step(self) -> None:
        """Record the end of a training step: the optimizer has applied its gradients."""
        ...
