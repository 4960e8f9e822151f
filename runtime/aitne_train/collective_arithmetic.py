"""Arithmetic of collectives on this rank: scaling, fusion of several tensors, and reductions that
the transport does not support itself.

The rules are Horovod's: integers are scaled in float64 and truncated towards zero, 16-bit floats
are scaled in float32, and an average is a sum that is divided afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aitne_train.collective_request import ReduceOp
from aitne_train.transport.base import Reduction, Transport

_REDUCTIONS = {
    ReduceOp.AVERAGE: Reduction.SUM,
    ReduceOp.SUM: Reduction.SUM,
    ReduceOp.MIN: Reduction.MIN,
    ReduceOp.MAX: Reduction.MAX,
    ReduceOp.PRODUCT: Reduction.PRODUCT,
}


class UnsupportedError(TypeError):
    """Error: the transport cannot reduce elements of this type by this operation."""


def scale_tensor(tensor: torch.Tensor, factor: float, divisor: int = 1) -> None:
    """Multiply the tensor by ``factor`` and divide it by ``divisor``, in place."""
    if factor == 1.0 and divisor == 1:
        return
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.mul_(factor / divisor)  # torch computes 16-bit floats in float32
        return
    wide = tensor.to(torch.float64)
    if factor != 1.0:
        wide.mul_(factor)
    # A division, not a product with 1/n: 49 * (1/49) is less than one and would become zero.
    tensor.copy_(wide.div_(divisor) if divisor != 1 else wide)


def reduce_fused(
    transport: Transport, flat: torch.Tensor, op: ReduceOp, prescale: float, postscale: float
) -> None:
    """Reduce the one-dimensional tensor ``flat`` of all ranks in place; multiply by ``prescale``
    before the reduction and by ``postscale`` after it.
    """
    reduction = _REDUCTIONS[op]
    wide = choose_wider_type(transport, flat.dtype, reduction)
    scale_tensor(flat, prescale)
    if flat.numel():
        if wide is None:
            transport.allreduce(flat, reduction)
        else:
            widened = flat.to(wide)
            transport.allreduce(widened, reduction)
            flat.copy_(widened)
    scale_tensor(flat, postscale, transport.size if op == ReduceOp.AVERAGE else 1)


def reduce_by_adasum(
    transport: Transport,
    flat: torch.Tensor,
    counts: Sequence[int],
    prescale: float,
    postscale: float,
) -> None:
    """Combine the one-dimensional tensor ``flat`` of all ranks in place by Adasum. ``counts``
    contains the lengths of the tensors that ``flat`` consists of, each of which is combined
    separately.
    """
    from aitne_train import adasum  # most programs never need it

    scale_tensor(flat, prescale)
    adasum.reduce_by_adasum(transport, flat, counts)
    scale_tensor(flat, postscale)


def reduce_and_scatter(
    transport: Transport, tensor: torch.Tensor, op: ReduceOp, prescale: float, postscale: float
) -> torch.Tensor:
    """Return this rank's part, along the first dimension, of the reduced tensor. If the dimension
    is not divisible by the number of ranks, the first ranks get one row more.
    """
    rows = divide_rows(tensor.shape[0], transport.size)
    row = tensor[0].numel() if tensor.shape[0] else 0
    counts = [count * row for count in rows]
    reduction = _REDUCTIONS[op]
    flat = tensor.detach().reshape(-1).clone()
    scale_tensor(flat, prescale)
    wide = choose_wider_type(transport, flat.dtype, reduction)
    if wide is not None:
        flat = flat.to(wide)
    out = flat.new_empty(counts[transport.rank])
    if flat.numel():
        transport.reducescatter(out, flat, counts, reduction)
    result = out.to(tensor.dtype).view(rows[transport.rank], *tensor.shape[1:])
    scale_tensor(result, postscale, transport.size if op == ReduceOp.AVERAGE else 1)
    return result


def divide_rows(rows: int, ranks: int) -> list[int]:
    """Divide ``rows`` rows among ``ranks`` ranks; return the number that each rank gets. The first
    ranks get one more if it is not divisible.
    """
    return [rows // ranks + (rank < rows % ranks) for rank in range(ranks)]


def choose_wider_type(
    transport: Transport, dtype: torch.dtype, op: Reduction
) -> torch.dtype | None:
    """Return the type to which elements must be converted so that ``transport`` can reduce them;
    None if it can reduce ``dtype`` itself.

    Raises:
        UnsupportedError: there is no such type.
    """
    if transport.reduces(dtype, op):
        return None
    candidates = (
        (torch.float32, torch.float64)
        if dtype.is_floating_point
        else ()
        if dtype.is_complex
        else (torch.int32, torch.int64)
    )
    for wide in candidates:
        if wide.itemsize > dtype.itemsize and transport.reduces(wide, op):
            return wide
    raise UnsupportedError(
        f"{transport.name} cannot take the {op.name.lower()} of elements of type {dtype}."
    )


class FusionBuffer:
    """Reused memory in which several tensors are joined to one flat tensor for a single collective;
    one buffer for each element type and device.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}

    def fuse(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return one flat tensor with the elements of all tensors, which is valid until the next
        call.
        """
        first = tensors[0]
        count = sum(tensor.numel() for tensor in tensors)
        key = (first.dtype, first.device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < count:
            buffer = self._buffers[key] = first.new_empty(count)
        row = buffer[:count]
        torch.cat([tensor.detach().view(-1) for tensor in tensors], out=row)
        return row


def unfuse_tensors(row: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    """Copy the elements of the flat tensor ``row`` back to the tensors ``outputs``."""
    for output, part in zip(
        outputs, row.split([tensor.numel() for tensor in outputs]), strict=True
    ):
        output.detach().view(-1).copy_(part)
