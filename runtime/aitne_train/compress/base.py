"""Interface of gradient compressors. Each other public module of this package implements one."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch


class BucketCompressor(Protocol):
    """Interface of compressors, which reduce the size of one bucket of gradients (a one-dimensional
    tensor) before it is exchanged.

    ``error_feedback`` states whether the compression error is kept: the exchange then adds ``flat -
    decompress(compress(flat))`` to the next step's gradients (Seide et al. 2014, "1-bit stochastic
    gradient descent").
    """

    name: ClassVar[str]
    error_feedback: ClassVar[bool]
    reducible: ClassVar[bool]
    """Whether the compressed tensors of all ranks can be summed directly. If not, they are
    gathered; they may then differ in length by rank, and ``context`` is sent with them, so it must
    consist of JSON values."""

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return a smaller tensor and the context that ``decompress`` needs. A tensor of integers
        is returned unchanged.
        """
        ...

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the tensor in its original dtype and length.

        If the tensor was gathered from another rank, ``context`` comes from that rank, and tuples
        in it have become lists because it was sent as JSON.
        """
        ...
