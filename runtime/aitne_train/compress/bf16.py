"""bfloat16: the range of float32 with 7 bits of mantissa."""

from __future__ import annotations

from typing import ClassVar

import torch

from aitne_train.compress._narrow import Narrow


class Bf16(Narrow):
    """Compressor that sends float32 gradients as bfloat16, in half the bytes. There is no overflow;
    rounding errors are up to 0.4 percent.
    """

    name: ClassVar[str] = "bf16"
    wire: ClassVar[torch.dtype] = torch.bfloat16
