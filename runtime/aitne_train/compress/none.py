"""Compressor that leaves gradients unchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class NoCompression:
    """Compressor that sends gradients unchanged, without a copy."""

    name: ClassVar[str] = "none"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = True

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor itself, and None as the context."""
        return flat, None

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the tensor itself, without any change."""
        return row
