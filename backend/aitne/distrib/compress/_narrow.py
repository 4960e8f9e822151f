"""Base class of both 16-bit floating-point compressors."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Narrow:
    """Compressor that rounds wider floating-point rows to ``wire``, to nearest even; others are
    unchanged."""

    error_feedback: ClassVar[bool] = True
    reducible: ClassVar[bool] = True
    wire: ClassVar[torch.dtype]

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the rounded row and its original dtype; None if the row is unchanged."""
        if not flat.is_floating_point() or flat.element_size() <= self.wire.itemsize:
            return flat, None
        return flat.to(self.wire), flat.dtype

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the row in its original dtype."""
        return row if context is None else row.to(context)
