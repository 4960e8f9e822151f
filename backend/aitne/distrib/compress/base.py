"""Interface of compressors, which reduce the size of gradients; each file of this package is
one."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch


class BucketCompressor(Protocol):
    """Interface of compressors, which reduce the size of one bucket of gradients before it is
    exchanged.

    ``error_feedback`` is whether the compression error is to be kept: the exchange then adds ``flat
    - decompress(compress(flat))`` to the next step's gradients (Seide et al. 2014, "1-bit
    stochastic gradient descent").
    """

    name: ClassVar[str]
    error_feedback: ClassVar[bool]
    reducible: ClassVar[bool]
    """Whether compressed rows of ranks can be summed directly; otherwise they are gathered. Then
    rows may differ in length by rank, and ``context`` is sent with its row: it consists of JSON
    values."""

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return a smaller row and the context that ``decompress`` needs. A row of integers is
        returned unchanged.
        """
        ...

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the row in its original dtype and length.

        For a gathered row ``context`` comes from the sending rank, and a tuple in it has become a
        list.
        """
        ...
