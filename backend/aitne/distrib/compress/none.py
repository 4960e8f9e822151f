"""Gradients as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class NoCompression:
    """Sends every row unchanged and uncopied."""

    name: ClassVar[str] = "none"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = True

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The row itself."""
        return flat, None

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """The row itself."""
        return row
