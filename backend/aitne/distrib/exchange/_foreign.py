"""Adapter of a program's own class for ``compression=`` to a compressor."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class UserCompressor:
    """Compressor that applies a class of the program (the argument ``compression``) to one gradient
    at a time, in the gradient's own shape. The compressed rows are summed, as in Horovod.
    """

    name: ClassVar[str] = "foreign"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = True

    def __init__(self, compression: Any) -> None:
        self._compression = compression

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Compress with the program's class."""
        row, context = self._compression.compress(flat)
        return row, context

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Decompress with the program's class."""
        restored: torch.Tensor = self._compression.decompress(row, context)
        return restored
