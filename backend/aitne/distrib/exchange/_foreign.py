"""A program's own class for ``compression=``, as a compressor."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Foreign:
    """Whatever its ``compress`` gives is summed, as Horovod does: it sees one gradient in its own shape."""

    name: ClassVar[str] = "foreign"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = True

    def __init__(self, compression: Any) -> None:
        self._compression = compression

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """As the program's class does."""
        row, context = self._compression.compress(flat)
        return row, context

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """As the program's class does."""
        restored: torch.Tensor = self._compression.decompress(row, context)
        return restored
