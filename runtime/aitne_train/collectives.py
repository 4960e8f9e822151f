"""Collectives, with Horovod's names, arguments and defaults (horovod.torch.mpi_ops, 0.28).

The calls of the ranks are matched by name: a collective starts when every rank of the process set
has submitted one of that name. Calls without a name are matched in the order of submission. If
ranks submit different operations under one name, all of them raise ``HorovodInternalError``.

Common arguments:

- ``op``: ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
- ``average``: deprecated form of ``op``: True for ``Average``, False for ``Sum``.
- ``prescale_factor``, ``postscale_factor``: factors by which values are multiplied before and after
  the reduction.
- ``compression``: a class of ``Compression``.
- ``process_set``: ranks that take part.

All functions raise ``HorovodInternalError`` if ``init`` was not called, if ranks disagree or if the
connection to a rank is lost, and ``ValueError`` for a name that is in use or a tensor of an
unsupported type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aitne_train import _collective_preparation
from aitne_train._async_collectives import (
    allgather_async,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    reducescatter_async,
    sparse_allreduce_async,
)
from aitne_train._autograd_functions import Allgather, Allreduce, Alltoall, Broadcast, Reducescatter
from aitne_train._collective_submission import poll, select_reduction, synchronize
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import ReduceOp
from aitne_train.compression import Compression, Compressor
from aitne_train.process_sets import ProcessSet, global_process_set

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]

Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT


@mark_collective("allreduce")
def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduce ``tensor`` of all ranks element by element. Differentiable.

    Returns:
        A new tensor of the same shape and type.
    """
    reduce_op = select_reduction(op, average)
    small, context = compression.compress(tensor)
    scales = (prescale_factor, postscale_factor)
    reduced = Allreduce.apply(False, name, reduce_op, scales, process_set, small)
    return compression.decompress(reduced, context)


@mark_collective("allreduce_")
def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduce ``tensor`` of all ranks element by element, in place; return ``tensor``."""
    reduce_op = select_reduction(op, average)
    scales = (prescale_factor, postscale_factor)
    return _collective_preparation.prepare_allreduce_in_place(
        tensor, name, reduce_op, scales, process_set
    ).run()


@mark_collective("grouped_allreduce")
def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Reduce several tensors as ``allreduce`` does, in one exchange; return new tensors.
    Differentiable.
    """
    reduce_op = select_reduction(op, average)
    small, contexts = _compress_tensors(tensors, compression)
    scales = (prescale_factor, postscale_factor)
    reduced = Allreduce.apply(True, name, reduce_op, scales, process_set, *small)
    return _decompress_tensors(reduced, contexts, compression)


@mark_collective("grouped_allreduce_")
def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Reduce several tensors in place as ``allreduce_`` does, in one exchange; return the tensors."""
    reduce_op = select_reduction(op, average)
    scales = (prescale_factor, postscale_factor)
    return _collective_preparation.prepare_grouped_allreduce_in_place(
        tensors, name, reduce_op, scales, process_set
    ).run()


@mark_collective("allgather")
def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Return the tensors of all ranks, concatenated along the first dimension in the order of the
    ranks. Differentiable.

    The tensors may differ in their first dimension only.
    """
    return Allgather.apply(False, name, process_set, tensor)


@mark_collective("grouped_allgather")
def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Gather several tensors as ``allgather`` does, in one exchange. Differentiable."""
    return Allgather.apply(True, name, process_set, *tensors)


@mark_collective("broadcast")
def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a copy of the tensor of rank ``root_rank``. Differentiable.

    ``root_rank`` counts among all ranks, even if ``process_set`` contains only some.

    Raises:
        ValueError: the process set does not contain this rank.
    """
    return Broadcast.apply(tensor, root_rank, name, process_set)


@mark_collective("broadcast_")
def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Write the values of rank ``root_rank``'s tensor into ``tensor``; return ``tensor``."""
    return _collective_preparation.prepare_broadcast_in_place(
        tensor, root_rank, name, process_set
    ).run()


@mark_collective("alltoall")
def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows (slices along the first dimension) to each rank and receive rows from each rank.
    Differentiable.

    Args:
        tensor: rows for rank 0, followed by those for rank 1 and so on. The tensors of the ranks
            may differ in their first dimension only.
        splits: number of rows for each rank, as integers in a tensor or list; None for the same
            number for each.
        name: name by which the calls of the ranks are matched; None: by the order of calls.
        process_set: ranks that take part.

    Returns:
        The received rows, in the order of the ranks. If ``splits`` is given, a pair: the received
            rows, and the number of rows from each rank.

    Raises:
        ValueError: ``splits`` does not fit the tensor or the number of ranks.
    """
    return Alltoall.apply(tensor, splits, name, process_set)


@mark_collective("reducescatter")
def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduce ``tensor`` of all ranks and return this rank's part of the result along the first
    dimension. Differentiable.

    If the first dimension is not divisible by the number of ranks, the first ranks get one row
    more. ``op`` is Average or Sum.
    """
    small, context = compression.compress(tensor)
    scales = (prescale_factor, postscale_factor)
    reduced = Reducescatter.apply(False, name, op, scales, process_set, small)
    return compression.decompress(reduced, context)


@mark_collective("grouped_reducescatter")
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Reduce and divide several tensors as ``reducescatter`` does, in one exchange. Differentiable."""
    small, contexts = _compress_tensors(tensors, compression)
    scales = (prescale_factor, postscale_factor)
    reduced = Reducescatter.apply(True, name, op, scales, process_set, *small)
    return _decompress_tensors(reduced, contexts, compression)


@mark_collective("join")
def join(device: int = -1) -> int:
    """Report that this rank has no more data, and wait until all ranks have called this. Until then
    this rank takes part in allreduces of the other ranks with zeros.

    An average still divides by the number of all ranks. Other collectives than sums and averages
    fail while a rank has joined.

    Args:
        device: number of the GPU on which the zeros are created; -1 for main memory.

    Returns:
        The rank that joined last.
    """
    return _collective_preparation.prepare_join(device, global_process_set).run()


@mark_collective("barrier")
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank of the process set has called this function."""
    _collective_preparation.prepare_barrier(process_set).run()


def _compress_tensors(
    tensors: Sequence[torch.Tensor], compression: type[Compressor]
) -> tuple[list[torch.Tensor], list[Any]]:
    pairs = [compression.compress(tensor) for tensor in tensors]
    return [small for small, _ in pairs], [context for _, context in pairs]


def _decompress_tensors(
    tensors: Sequence[torch.Tensor], contexts: Sequence[Any], compression: type[Compressor]
) -> list[torch.Tensor]:
    return [
        compression.decompress(tensor, context)
        for tensor, context in zip(tensors, contexts, strict=True)
    ]
