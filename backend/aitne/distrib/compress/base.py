"""How gradients are made smaller on their way: one file of this package is one compressor."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch


class Compressor(Protocol):
    """Made for one bucket of one optimizer.

    ``error_feedback`` says whether what compression loses is worth keeping: the exchange then adds
    ``flat - decompress(compress(flat))`` to the next step's gradients (Seide et al. 2014,
    "1-bit stochastic gradient descent").
    """

    name: ClassVar[str]
    error_feedback: ClassVar[bool]
    reducible: ClassVar[bool]
    """Whether compressed rows of ranks can be summed as they are; otherwise they are gathered. Then rows may
    differ in length by rank, and ``context`` travels with its row: it consists of what JSON has."""

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """A smaller row and what ``decompress`` needs. Integers pass as they are."""
        ...

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        """The row in the dtype and length it had. Of a gathered row ``context`` is that of the rank it came
        from, and a tuple in it has become a list."""
        ...
