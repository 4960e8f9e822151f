"""One record per collective: what the profile, the predictor and the watchdog share."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One collective on this rank. Times are ``time.monotonic_ns()``."""

    op: str
    """``allreduce``, ``allgather``, ``broadcast``, ``alltoall``, ``reducescatter``, ``barrier``."""
    nbytes: int
    """Of this rank's own contribution."""
    ranks: int
    t0_ns: int
    t1_ns: int


class Recorder(Protocol):
    """What those who run collectives tell. Called from any thread."""

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Keep a record; it costs less than a microsecond."""
        ...

    def step(self) -> None:
        """A training step has ended: the optimizer has applied its gradients."""
        ...
