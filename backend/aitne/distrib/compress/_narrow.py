"""What both 16-bit floating-point compressors do."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Narrow:
    """Rounds wider floating-point rows to ``wire``, to nearest even; all others pass as they are."""

    error_feedback: ClassVar[bool] = True
    reducible: ClassVar[bool] = True
    wire: ClassVar[torch.dtype]

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The rounded row, and the dtype it had; None where it passed unchanged."""
        if not flat.is_floating_point() or flat.element_size() <= self.wire.itemsize:
            return flat, None
        return flat.to(self.wire), flat.dtype

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """The row in the dtype it had."""
        return row if context is None else row.to(context)
