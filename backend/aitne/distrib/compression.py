"""How a tensor is made smaller for one collective: the classes that Horovod's ``compression=`` takes.

A class of a program's own fits too: two static methods as ``Compressor`` has them. Compressors of the
gradient exchange, which may keep state, are in ``aitne.distrib.compress``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Compressor:
    """What ``compression=`` takes: a class, not an object of it."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor as it was, but for what ``compress`` lost."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor itself."""
        return tensor


class _Cast(Compressor):
    """Sends floats of any width as ``dtype``; integers as they are."""

    dtype: ClassVar[torch.dtype]

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor in 16 bits, and its own dtype."""
        if not tensor.dtype.is_floating_point:
            return tensor, tensor.dtype
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor in the dtype it had."""
        return tensor.to(ctx)


class FP16Compressor(_Cast):
    """Half the bytes of float32; values beyond 65504 become infinite."""

    dtype = torch.float16


class BF16Compressor(_Cast):
    """Half the bytes of float32, and its range, with 8 bits of precision. Horovod has none such."""

    dtype = torch.bfloat16


class Compression:
    """The compressors by the names that scripts use."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
