"""Collectives, with Horovod's names, arguments and defaults (horovod.torch.mpi_ops, 0.28).

Ranks match by name: a collective starts when every rank of the process set has submitted one of
that name. Those without a name match in the order of submission. If ranks submit different
operations under one name, all of them get ``HorovodInternalError``.

Common arguments:

- ``op``: ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
- ``average``: the old form of ``op``; deprecated.
- ``prescale_factor``, ``postscale_factor``: values are multiplied by these before and after.
- ``compression``: a class of ``Compression``.
- ``process_set``: the ranks that take part.

All of them raise ``HorovodInternalError`` if ``init`` was not called, if ranks disagree and if a rank
is gone, and ``ValueError`` for a name that is in use and for a tensor of a type that they do not take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aitne.distrib import _calls as calls
from aitne.distrib._asynchronous import (
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
from aitne.distrib._gradients import Allgather, Allreduce, Alltoall, Broadcast, Reducescatter
from aitne.distrib._submit import poll, reduction, synchronize
from aitne.distrib.compression import Compression, Compressor
from aitne.distrib.process_sets import ProcessSet, global_process_set
from aitne.distrib.types import ReduceOp

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
    """Reduce ``tensor`` of all ranks element by element; differentiable.

    Returns:
        A new tensor of the same shape and type.
    """
    reduce_op = reduction(op, average)
    small, context = compression.compress(tensor)
    scales = (prescale_factor, postscale_factor)
    reduced = Allreduce.apply(False, name, reduce_op, scales, process_set, small)
    return compression.decompress(reduced, context)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduce ``tensor`` of all ranks in place; return it."""
    reduce_op = reduction(op, average)
    scales = (prescale_factor, postscale_factor)
    return calls.allreduce_in_place(tensor, name, reduce_op, scales, process_set).now()


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
    """Perform ``allreduce`` of several tensors in one exchange; differentiable."""
    reduce_op = reduction(op, average)
    small, contexts = _compressed(tensors, compression)
    scales = (prescale_factor, postscale_factor)
    reduced = Allreduce.apply(True, name, reduce_op, scales, process_set, *small)
    return _decompressed(reduced, contexts, compression)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Perform ``allreduce_`` of several tensors in one exchange; return them."""
    reduce_op = reduction(op, average)
    scales = (prescale_factor, postscale_factor)
    return calls.grouped_allreduce_in_place(tensors, name, reduce_op, scales, process_set).now()


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Return the rows of all ranks, in the order of ranks; differentiable.

    Tensors may differ in their first dimension only.
    """
    return Allgather.apply(False, name, process_set, tensor)


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Perform ``allgather`` of several tensors in one exchange; differentiable."""
    return Allgather.apply(True, name, process_set, *tensors)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a copy of rank ``root_rank``'s tensor; differentiable.

    ``root_rank`` counts among all ranks, also with a process set.

    Raises:
        ValueError: there is no such rank in the set.
    """
    return Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Write rank ``root_rank``'s values into ``tensor``; return it."""
    return calls.broadcast_in_place(tensor, root_rank, name, process_set).now()


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows to each rank and receive rows from each rank; differentiable.

    Args:
        tensor: Rows for rank 0 first. Tensors may differ in their first dimension only.
        splits: Number of rows for each rank: integers in a tensor or list; None for equally many.
        name: By which ranks match.
        process_set: Ranks that take part.

    Returns:
        The received rows, in the order of ranks; if ``splits`` is given, a pair: these, and the
            number of rows from each rank.

    Raises:
        ValueError: ``splits`` does not fit the tensor or the number of ranks.
    """
    return Alltoall.apply(tensor, splits, name, process_set)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Return this rank's share of the rows of an ``allreduce``; differentiable.

    If rows are not divisible, the first ranks have one more. ``op`` is Average or Sum.
    """
    small, context = compression.compress(tensor)
    scales = (prescale_factor, postscale_factor)
    reduced = Reducescatter.apply(False, name, op, scales, process_set, small)
    return compression.decompress(reduced, context)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Perform ``reducescatter`` of several tensors in one exchange; differentiable."""
    small, contexts = _compressed(tensors, compression)
    scales = (prescale_factor, postscale_factor)
    reduced = Reducescatter.apply(True, name, op, scales, process_set, *small)
    return _decompressed(reduced, contexts, compression)


def join(device: int = -1) -> int:
    """Report that this rank has no more data; it takes part with zeros until all ranks have joined.

    Averages still count all ranks. Other ranks may only reduce meanwhile: gathering and
    broadcasting fail.

    Args:
        device: Number of the GPU whose memory holds the zeros; -1 for main memory.

    Returns:
        The rank that joined last.
    """
    return calls.join(device, global_process_set).now()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank of the set has called it."""
    calls.barrier(process_set).now()


def _compressed(
    tensors: Sequence[torch.Tensor], compression: type[Compressor]
) -> tuple[list[torch.Tensor], list[Any]]:
    pairs = [compression.compress(tensor) for tensor in tensors]
    return [small for small, _ in pairs], [context for _, context in pairs]


def _decompressed(
    tensors: Sequence[torch.Tensor], contexts: Sequence[Any], compression: type[Compressor]
) -> list[torch.Tensor]:
    return [
        compression.decompress(tensor, context)
        for tensor, context in zip(tensors, contexts, strict=True)
    ]
