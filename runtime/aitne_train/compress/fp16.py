"""IEEE half precision: 10 bits of mantissa, magnitudes from 6e-8 to 65504."""

from __future__ import annotations

from typing import ClassVar

import torch

from aitne_train.compress._narrow import Narrow


class Fp16(Narrow):
    """Compressor that sends float32 gradients as float16, in half the bytes. Values beyond 65504
    become infinite, as in Horovod.
    """

    name: ClassVar[str] = "fp16"
    wire: ClassVar[torch.dtype] = torch.float16
