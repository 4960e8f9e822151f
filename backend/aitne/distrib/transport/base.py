"""What every transport does. One file of this package fulfils ``Transport``, and the registry finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Protocol

import torch


class TransportError(RuntimeError):
    """A collective could not be done: a peer is gone, or it was aborted. The transport is of no more use."""


class Reduction(IntEnum):
    """How values of ranks become one. An average is a sum that its caller scales."""

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
"""What reductions of truth values are on their bytes, which are 0 or 1."""


class Store(Protocol):
    """Where ranks leave each other short messages while they find each other."""

    def set(self, key: str, value: bytes) -> None:
        """Leave ``value``. Raises ``ConnectionError``."""
        ...

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for the value. Raises ``TimeoutError`` or ``ConnectionError``."""
        ...


@dataclass(frozen=True)
class Group:
    """Those who will exchange, as each of them knows it."""

    name: str
    """The same at every member, and never used twice within a run: its keys in the store begin so."""
    rank: int
    """Of this process, within the group."""
    ranks: tuple[int, ...]
    """World ranks of the members, ascending: ``ranks[rank]`` is this process."""
    nodes: tuple[int, ...]
    """Number of each member's node: equal numbers share memory."""
    store: Store
    timeout_s: float = 60.0
    """How long members may take to turn up."""

    @property
    def size(self) -> int:
        """How many members it has."""
        return len(self.ranks)


class Transport(Protocol):
    """A connected group. Made by ``connect``, which every member calls at the same point.

    Tensors are contiguous, and are taken as flat rows of elements; counts are in elements. Every member
    calls the same methods in the same order, one at a time, from any thread. Each call returns when its
    result may be used (on a GPU: by later work of the current stream), and gives the interpreter's lock
    back while it waits.

    Every method raises ``TransportError`` when a peer is gone or ``abort`` was called, within about a
    second; afterwards only ``close`` may be called.
    """

    name: ClassVar[str]
    devices: ClassVar[frozenset[str]]
    """``cpu``, ``cuda``: whose tensors it takes."""
    rank: int
    size: int

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Why it cannot serve ranks on these nodes (a number each); None: it can. Connects nothing."""
        ...

    @classmethod
    def connect(cls, group: Group, device: str) -> Transport:
        """Raises ``TransportError``, also when a member does not turn up."""
        ...

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Whether ``allreduce`` and ``reducescatter`` take this kind of element."""
        ...

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """In place."""
        ...

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """``flat`` has ``sum(counts)`` elements; ``out`` gets this rank's ``counts[rank]``. ``flat`` may
        be written over."""
        ...

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """``out`` gets every rank's ``counts[r]`` elements, one after another. Any dtype."""
        ...

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """In place. Any dtype."""
        ...

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Parts of ``flat``, in the order of ranks, one for each. Any dtype."""
        ...

    def barrier(self) -> None:
        """Return when every rank has called it."""
        ...

    def abort(self, reason: str) -> None:
        """From any thread: whatever waits raises ``TransportError(reason)`` within a second."""
        ...

    def close(self) -> None:
        """Give everything back; nobody waits for anybody. Never raises."""
        ...
