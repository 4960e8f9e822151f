"""The transport of a rank that has nobody to exchange with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from aitne.distrib.transport.base import Group, Reduction, TransportError


class SoloTransport:
    """A group of one: what comes out is what went in."""

    name: ClassVar[str] = "solo"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    rank = 0
    size = 1

    def __init__(self) -> None:
        self._aborted: str | None = None

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """It serves one rank."""
        return None if len(nodes) == 1 else f"solo serves one rank, not {len(nodes)}"

    @classmethod
    def connect(cls, group: Group, device: str) -> SoloTransport:
        """There is nobody to wait for."""
        return cls()

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Every kind."""
        return True

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Leaves it as it is."""
        self._check()

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """A copy."""
        self._check()
        out.copy_(flat)

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """A copy."""
        self._check()
        out.copy_(flat)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Leaves it as it is."""
        self._check()

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """A copy."""
        self._check()
        out.copy_(flat)

    def barrier(self) -> None:
        """Everybody is here."""
        self._check()

    def abort(self, reason: str) -> None:
        """Further calls raise."""
        self._aborted = reason

    def close(self) -> None:
        """There is nothing to give back."""

    def _check(self) -> None:
        if self._aborted is not None:
            raise TransportError(self._aborted)
