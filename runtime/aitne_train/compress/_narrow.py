"""Base class of the two compressors to 16-bit floating point."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Narrow:
    """Compressor that rounds floats wider than ``wire`` (the 16-bit dtype to send) to the nearest
    value, ties to even. Other tensors are unchanged.
    """

    error_feedback: ClassVar[bool] = True
    reducible: ClassVar[bool] = True
    wire: ClassVar[torch.dtype]

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the rounded tensor and its original dtype; if the tensor is not wider, return it
        unchanged, with None.
        """
        if not flat.is_floating_point() or flat.element_size() <= self.wire.itemsize:
            return flat, None
        return flat.to(self.wire), flat.dtype

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the tensor converted to its original dtype (``context``)."""
        return row if context is None else row.to(context)
