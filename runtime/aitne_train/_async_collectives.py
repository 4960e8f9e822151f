"""Asynchronous collectives, which return a handle immediately; see ``collectives``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from aitne_train import _collective_preparation
from aitne_train._collective_submission import select_reduction, synchronize
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import ReduceOp
from aitne_train.process_sets import ProcessSet, global_process_set


@mark_collective("allreduce_async")
def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``prepare_allreduce``; ``synchronize`` returns the new tensor."""
    scales = (prescale_factor, postscale_factor)
    return _collective_preparation.prepare_allreduce(
        tensor, name, select_reduction(op, average), scales, process_set
    ).submit()


@mark_collective("allreduce_async_")
def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``allreduce_``; ``synchronize`` returns ``tensor``."""
    scales = (prescale_factor, postscale_factor)
    reduce_op = select_reduction(op, average)
    return _collective_preparation.prepare_allreduce_in_place(
        tensor, name, reduce_op, scales, process_set
    ).submit()


@mark_collective("grouped_allreduce_async")
def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``prepare_grouped_allreduce``; ``synchronize`` returns a tuple of new tensors."""
    scales = (prescale_factor, postscale_factor)
    reduce_op = select_reduction(op, average)
    return _collective_preparation.prepare_grouped_allreduce(
        tensors, name, reduce_op, scales, process_set
    ).submit()


@mark_collective("grouped_allreduce_async_")
def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``grouped_allreduce_``; ``synchronize`` returns a tuple of the tensors themselves."""
    scales = (prescale_factor, postscale_factor)
    reduce_op = select_reduction(op, average)
    return _collective_preparation.prepare_grouped_allreduce_in_place(
        tensors, name, reduce_op, scales, process_set
    ).submit()


@mark_collective("sparse_allreduce_async")
def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None,
    op: int | None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """Start an allreduce of sparse COO tensors, such as gradients of embeddings.

    Returns:
        A function that waits and returns the sum or average as a sparse tensor that is not
            coalesced. ``synchronize`` accepts this function in place of a handle.

    Raises:
        ValueError: ``op`` is neither Sum nor Average.
    """
    reduce_op = select_reduction(op, None)
    if reduce_op not in (ReduceOp.SUM, ReduceOp.AVERAGE):
        raise ValueError("Sparse tensors can be summed or averaged.")
    entries = tensor.detach()
    names = (None, None) if name is None else (f"{name}.indices", f"{name}.values")
    # Gathering goes along the first dimension, so places go a row each.
    places = allgather_async(entries._indices().t(), names[0], process_set)
    values = allgather_async(entries._values(), names[1], process_set)

    def wait() -> torch.Tensor:
        every_place, every_value = synchronize(places), synchronize(values)
        if reduce_op is ReduceOp.AVERAGE:
            every_value = every_value / process_set.size()
        return torch.sparse_coo_tensor(
            every_place.t(), every_value, entries.shape, check_invariants=False
        )

    return wait


@mark_collective("allgather_async")
def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start ``prepare_allgather``; ``synchronize`` returns the new tensor."""
    return _collective_preparation.prepare_allgather(tensor, name, process_set).submit()


@mark_collective("grouped_allgather_async")
def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``prepare_grouped_allgather``; ``synchronize`` returns a tuple of new tensors."""
    return _collective_preparation.prepare_grouped_allgather(tensors, name, process_set).submit()


@mark_collective("broadcast_async")
def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``prepare_broadcast``; ``synchronize`` returns the new tensor."""
    return _collective_preparation.prepare_broadcast(tensor, root_rank, name, process_set).submit()


@mark_collective("broadcast_async_")
def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``broadcast_``; ``synchronize`` returns ``tensor``."""
    return _collective_preparation.prepare_broadcast_in_place(
        tensor, root_rank, name, process_set
    ).submit()


@mark_collective("alltoall_async")
def alltoall_async(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start ``prepare_alltoall``; ``synchronize`` always returns a pair: the new tensor, and the number of
    rows received from each rank.
    """
    return _collective_preparation.prepare_alltoall(tensor, splits, name, process_set).submit()


@mark_collective("reducescatter_async")
def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = ReduceOp.AVERAGE,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start ``prepare_reducescatter``; ``synchronize`` returns the new tensor."""
    scales = (prescale_factor, postscale_factor)
    return _collective_preparation.prepare_reducescatter(
        tensor, name, op, scales, process_set
    ).submit()


@mark_collective("grouped_reducescatter_async")
def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = ReduceOp.AVERAGE,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start ``prepare_grouped_reducescatter``; ``synchronize`` returns a tuple of new tensors."""
    scales = (prescale_factor, postscale_factor)
    return _collective_preparation.prepare_grouped_reducescatter(
        tensors, name, op, scales, process_set
    ).submit()
