"""Compression of one tensor for one collective: the classes that Horovod's argument
``compression=`` takes.

A program may also pass a class of its own with the two static methods of ``Compressor``.
Compressors of the gradient exchange, which may keep state, are in ``aitne_train.compress``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Compressor:
    """Interface of the compressors for the argument ``compression=``. The class itself is passed,
    not an instance of it.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and the context that ``decompress`` needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the original tensor, except for the precision that ``compress`` has lost."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Compressor that sends tensors unchanged."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor itself, and None as the context."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the tensor itself, unchanged."""
        return tensor


class _Cast(Compressor):
    """Compressor that converts floating-point tensors to ``dtype``; integers are unchanged."""

    dtype: ClassVar[torch.dtype]

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor in 16 bits, and its original dtype as the context."""
        if not tensor.dtype.is_floating_point:
            return tensor, tensor.dtype
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the tensor converted to its original dtype (``ctx``)."""
        return tensor.to(ctx)


class FP16Compressor(_Cast):
    """Compressor that sends floats as float16; values beyond 65504 become infinite."""

    dtype = torch.float16


class BF16Compressor(_Cast):
    """Compressor that sends floats as bfloat16, which has the range of float32 and 8 bits of
    precision. Horovod does not have it.
    """

    dtype = torch.bfloat16


class Compression:
    """The compressors for the argument ``compression=``, under Horovod's names for them."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
