"""Record of one collective, shared by the profile, the predictor and the watchdog."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class CollectiveRecord(NamedTuple):
    """Record of one collective that this rank has executed: operation, bytes, number of ranks,
    start and end. Times are ``time.monotonic_ns()``.
    """

    op: str
    """Name of the operation: ``allreduce``, ``allgather``, ``broadcast``, ``alltoall``,
    ``reducescatter``, ``barrier``."""
    nbytes: int
    """Bytes of this rank's own contribution."""
    ranks: int
    t0_ns: int
    t1_ns: int


class Recorder(Protocol):
    """Interface that receives a record of each executed collective. Called from any thread."""

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Add a record; it costs less than a microsecond."""
        ...

    def step(self) -> None:
        """Record the end of a training step: the optimizer has applied its gradients."""
        ...
