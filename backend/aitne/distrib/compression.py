"""Compression of a tensor for one collective: the classes for Horovod's argument ``compression=``.

A class of the program is accepted too: two static methods as in ``Compressor``. Compressors of the
gradient exchange, which may keep state, are in ``aitne.distrib.compress``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class Compressor:
    """Interface of Horovod's compressors for the argument ``compression=``, which is a class, not
    an instance of it.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send and the context for ``decompress``."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the original tensor, apart from the losses of ``compress``."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Compressor that sends tensors unchanged."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor itself, without context."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the tensor itself, unchanged."""
        return tensor


class _Cast(Compressor):
    """Compressor that converts floats of any width to ``dtype``; integers are unchanged."""

    dtype: ClassVar[torch.dtype]

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor in 16 bits and its original dtype."""
        if not tensor.dtype.is_floating_point:
            return tensor, tensor.dtype
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the tensor in its original dtype."""
        return tensor.to(ctx)


class FP16Compressor(_Cast):
    """Compressor with half the bytes of float32; values beyond 65504 become infinite."""

    dtype = torch.float16


class BF16Compressor(_Cast):
    """Compressor with half the bytes of float32, its range and 8 bits of precision; not in
    Horovod."""

    dtype = torch.bfloat16


class Compression:
    """The compressors for the argument ``compression=``, under the names that Horovod
    gives them.
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
