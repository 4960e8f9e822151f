"""Interface of all transports.

One file of this package implements ``Transport``, and the registry finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Protocol

import torch


class TransportError(RuntimeError):
    """Error: a collective failed because a peer is lost or it was aborted; the transport is
    unusable."""


class Reduction(IntEnum):
    """Reduction of the values of ranks. An average is a sum that its caller scales."""

    SUM = 1
    MIN = 3
    MAX = 4
    PRODUCT = 5


OF_BOOL = {
    Reduction.SUM: Reduction.MAX,
    Reduction.MAX: Reduction.MAX,
    Reduction.PRODUCT: Reduction.MIN,
    Reduction.MIN: Reduction.MIN,
}
"""Equivalent reductions of booleans on their bytes, which are 0 or 1."""


class Store(Protocol):
    """Store for short messages of ranks before they are connected."""

    def set(self, key: str, value: bytes) -> None:
        """Store ``value`` under ``key``. Raises ``ConnectionError``."""
        ...

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for the value and return it. Raises ``TimeoutError`` or ``ConnectionError``."""
        ...


@dataclass(frozen=True)
class Group:
    """Process group of a transport, as one of its members sees it."""

    name: str
    """Name, equal at all members and unique within a run: the prefix of its keys in the store."""
    rank: int
    """Rank of this process within the group."""
    ranks: tuple[int, ...]
    """World ranks of the members, ascending: ``ranks[rank]`` is this process."""
    nodes: tuple[int, ...]
    """Number of each member's node: equal numbers share memory."""
    store: Store
    timeout_s: float = 60.0
    """Seconds in which all members must connect."""

    @property
    def size(self) -> int:
        """Number of members of the group."""
        return len(self.ranks)


class Transport(Protocol):
    """Connected process group, created by ``connect``, which every member calls at the same point.

    Tensors are contiguous, and are taken as flat rows of elements; counts are in elements. Every
    member calls the same methods in the same order, one at a time, from any thread. Each call
    returns when its result may be used (on a GPU: by later work of the current stream), and
    releases the interpreter's lock while it waits.

    Every method raises ``TransportError`` when a peer is lost or ``abort`` was called, within about
    a second; afterwards only ``close`` may be called.
    """

    name: ClassVar[str]
    devices: ClassVar[frozenset[str]]
    """Supported devices of tensors: ``cpu``, ``cuda``."""
    rank: int
    size: int

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why it cannot serve ranks on these nodes (a number each); None if it can.

        Does not connect.
        """
        ...

    @classmethod
    def connect(cls, group: Group, device: str) -> Transport:
        """Connect the members of a group for tensors on ``device``: ``cpu``, or this rank's GPU such
        as ``cuda:1``.

        Raises ``TransportError``, also if a member does not connect in time.
        """
        ...

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether ``allreduce`` and ``reducescatter`` support this type of element."""
        ...

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        ...

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce ``flat`` and write this rank's part to ``out``.

        ``flat`` has ``sum(counts)`` elements; ``out`` gets this rank's ``counts[rank]``. ``flat``
        may be overwritten.
        """
        ...

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather every rank's ``counts[r]`` elements in ``out``, one after another. Any dtype."""
        ...

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast the values of ``root`` in place. Any dtype."""
        ...

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Send one part of ``flat`` to each rank, in the order of ranks. Any dtype."""
        ...

    def barrier(self) -> None:
        """Wait until every rank has called it."""
        ...

    def abort(self, reason: str) -> None:
        """Raise ``TransportError(reason)`` in all waits within a second.

        Callable from any thread.
        """
        ...

    def close(self) -> None:
        """Release all resources without waiting for other ranks. Never raises."""
        ...
