"""Adapter by which the gradient exchange uses a compression class of the program."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class UserCompressor:
    """Compressor that applies a class of the program (the argument ``compression``) to one gradient
    at a time, in the gradient's own shape. The compressed tensors of all ranks are summed, as in
    Horovod.
    """

    name: ClassVar[str] = "foreign"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = True

    def __init__(self, compression: Any) -> None:
        self._compression = compression

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the result of the ``compress`` method of the program's class."""
        row, context = self._compression.compress(flat)
        return row, context

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the result of the ``decompress`` method of the program's class."""
        restored: torch.Tensor = self._compression.decompress(row, context)
        return restored
