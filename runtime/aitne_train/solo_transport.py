"""Transport for a process group that consists of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from aitne_train.transport.base import Group, Reduction, TransportError


class SoloTransport:
    """Transport of a group with a single rank, where the output of every collective is its input."""

    name: ClassVar[str] = "solo"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    rank = 0
    size = 1

    def __init__(self) -> None:
        self._aborted: str | None = None

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot be used for these ranks; None if there is only one rank."""
        return None if len(nodes) == 1 else f"solo serves one rank, not {len(nodes)}"

    @classmethod
    def connect(cls, group: Group, device: str) -> SoloTransport:
        """Return a transport at once, because there are no other ranks."""
        return cls()

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return True, because every reduction over one rank returns its input."""
        return True

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Leave the values unchanged.

        Raises ``TransportError`` if ``abort`` was called.
        """
        self._raise_if_aborted()

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Copy the values of ``flat`` to ``out``."""
        self._raise_if_aborted()
        out.copy_(flat)

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Copy the values of ``flat`` to ``out``."""
        self._raise_if_aborted()
        out.copy_(flat)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Leave the values unchanged: the only rank is the root."""
        self._raise_if_aborted()

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Copy the values of ``flat`` to ``out``."""
        self._raise_if_aborted()
        out.copy_(flat)

    def barrier(self) -> None:
        """Return at once, because there are no other ranks."""
        self._raise_if_aborted()

    def abort(self, reason: str) -> None:
        """Make all further collectives raise ``TransportError(reason)``."""
        self._aborted = reason

    def close(self) -> None:
        """Do nothing, because this transport has no resources."""

    def _raise_if_aborted(self) -> None:
        if self._aborted is not None:
            raise TransportError(self._aborted)
