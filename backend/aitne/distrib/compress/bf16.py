"""bfloat16: the magnitudes of float32 with 7 bits of mantissa."""

from __future__ import annotations

from typing import ClassVar

import torch

from aitne.distrib.compress._narrow import Narrow


class Bf16(Narrow):
    """Compressor that halves float32 rows; no overflow, rounding errors of up to 0.4 percent."""

    name: ClassVar[str] = "bf16"
    wire: ClassVar[torch.dtype] = torch.bfloat16
