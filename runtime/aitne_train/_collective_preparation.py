"""Preparation of collectives: functions that validate the arguments and return a
``PreparedCollective``, which can then be submitted; used by ``collectives`` and ``_autograd_functions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aitne_train._collective_submission import (
    PreparedCollective,
    check_reducible,
    copy_in_place,
    make_dense,
    require_initialized,
    select_reduction,
)
from aitne_train.collective_request import Kind, ReduceOp
from aitne_train.errors import HorovodInternalError
from aitne_train.process_sets import ProcessSet

_SPLITS = frozenset((torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8))

Scales = tuple[float, float]


def prepare_allreduce(
    tensor: torch.Tensor, name: str | None, op: ReduceOp, scales: Scales, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare an allreduce that returns a new tensor."""
    rows = [check_reducible(tensor, op)]
    return PreparedCollective(
        Kind.ALLREDUCE, rows, process_set, _return_first, name=name, op=op, scales=scales
    )


def prepare_grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: ReduceOp,
    scales: Scales,
    process_set: ProcessSet,
) -> PreparedCollective:
    """Prepare a grouped allreduce that returns a tuple of new tensors."""
    rows = [check_reducible(tensor, op) for tensor in _check_group(tensors)]
    return PreparedCollective(
        Kind.ALLREDUCE, rows, process_set, tuple, name=name, op=op, scales=scales
    )


def prepare_allreduce_in_place(
    tensor: torch.Tensor, name: str | None, op: ReduceOp, scales: Scales, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare an allreduce in place that returns the tensor itself."""
    rows = [check_reducible(tensor, op)]

    def finish(outputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        copy_in_place([tensor], outputs)
        return tensor

    return PreparedCollective(
        Kind.ALLREDUCE, rows, process_set, finish, name=name, outputs=rows, op=op, scales=scales
    )


def prepare_grouped_allreduce_in_place(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: ReduceOp,
    scales: Scales,
    process_set: ProcessSet,
) -> PreparedCollective:
    """Prepare a grouped allreduce in place that returns a tuple of the given tensors."""
    group = tuple(_check_group(tensors))
    rows = [check_reducible(tensor, op) for tensor in group]

    def finish(outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        copy_in_place(group, outputs)
        return group

    return PreparedCollective(
        Kind.ALLREDUCE, rows, process_set, finish, name=name, outputs=rows, op=op, scales=scales
    )


def prepare_allgather(
    tensor: torch.Tensor, name: str | None, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare an allgather that returns a new tensor."""
    return PreparedCollective(
        Kind.ALLGATHER, [_check_rows(tensor)], process_set, _return_first, name=name
    )


def prepare_grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare a grouped allgather that returns a tuple of new tensors."""
    rows = [_check_rows(tensor) for tensor in _check_group(tensors)]
    return PreparedCollective(Kind.ALLGATHER, rows, process_set, tuple, name=name)


def prepare_broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare a broadcast that returns a new tensor."""
    _check_root(root_rank, process_set)
    rows = [make_dense(tensor)]
    return PreparedCollective(
        Kind.BROADCAST, rows, process_set, _return_first, name=name, root=root_rank
    )


def prepare_broadcast_in_place(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare a broadcast in place that returns the tensor itself."""
    _check_root(root_rank, process_set)
    rows = [make_dense(tensor)]

    def finish(outputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        copy_in_place([tensor], outputs)
        return tensor

    return PreparedCollective(
        Kind.BROADCAST, rows, process_set, finish, name=name, outputs=rows, root=root_rank
    )


def prepare_alltoall(
    tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare an alltoall that returns a new tensor and the number of rows received from each rank."""
    require_initialized()
    rows = _check_rows(tensor)
    counts: list[int] | None = None
    dtype = torch.int32
    size = process_set.size() or 1
    if splits is None:
        if rows.shape[0] % size:
            raise ValueError(
                f"The first dimension is {rows.shape[0]}, which {size} ranks cannot share equally: pass splits."
            )
    else:
        counts = _check_splits(splits, size, rows.shape[0])
        rows = rows[: sum(counts)]
        if isinstance(splits, torch.Tensor):
            dtype = splits.dtype

    def finish(outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        return outputs[0], outputs[1].to(dtype)

    return PreparedCollective(Kind.ALLTOALL, [rows], process_set, finish, name=name, splits=counts)


def prepare_reducescatter(
    tensor: torch.Tensor, name: str | None, op: int, scales: Scales, process_set: ProcessSet
) -> PreparedCollective:
    """Prepare a reducescatter that returns a new tensor."""
    reduce_op = _check_scatter_op(op)
    rows = [check_reducible(_check_rows(tensor), reduce_op)]
    return PreparedCollective(
        Kind.REDUCESCATTER, rows, process_set, _return_first, name=name, op=reduce_op, scales=scales
    )


def prepare_grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    scales: Scales,
    process_set: ProcessSet,
) -> PreparedCollective:
    """Prepare a grouped reducescatter that returns a tuple of new tensors."""
    reduce_op = _check_scatter_op(op)
    rows = [check_reducible(_check_rows(tensor), reduce_op) for tensor in _check_group(tensors)]
    return PreparedCollective(
        Kind.REDUCESCATTER, rows, process_set, tuple, name=name, op=reduce_op, scales=scales
    )


def prepare_join(device: int, process_set: ProcessSet) -> PreparedCollective:
    """Prepare a join, by which this rank reports that it has no more data; it returns the rank that
    joined last.
    """
    place = "cpu" if device < 0 else f"cuda:{device}"
    return PreparedCollective(Kind.JOIN, (), process_set, int, device=place)


def prepare_barrier(process_set: ProcessSet) -> PreparedCollective:
    """Prepare a barrier that returns None."""
    return PreparedCollective(Kind.BARRIER, (), process_set, _return_none)


def _return_first(outputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return outputs[0]


def _return_none(outputs: object) -> None:
    return None


def _check_group(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    group = list(tensors)
    if not group:
        raise ValueError("A group needs at least one tensor.")
    return group


def _check_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor contiguous and without autograd history (see ``make_dense``), for a collective
    that divides or joins tensors along their first dimension.

    Raises ``HorovodInternalError`` if the tensor has no dimensions.
    """
    rows = make_dense(tensor)
    if rows.dim() == 0:
        raise HorovodInternalError(
            "A tensor without dimensions has no rows to gather or distribute."
        )
    return rows


def _check_scatter_op(op: int) -> ReduceOp:
    reduce_op = select_reduction(op, None)
    if reduce_op not in (ReduceOp.SUM, ReduceOp.AVERAGE):
        raise HorovodInternalError("reducescatter supports Sum and Average only.")
    return reduce_op


def _check_root(root_rank: int, process_set: ProcessSet) -> None:
    ranks = process_set.ranks
    if ranks and root_rank not in ranks:
        raise ValueError(
            f"Root rank {root_rank} is not among the ranks {ranks} of the process set."
        )


def _check_splits(splits: Any, size: int, length: int) -> list[int]:
    tensor = torch.as_tensor(splits)
    if tensor.dtype not in _SPLITS:
        raise ValueError(f"alltoall expects splits to be integers, not {tensor.dtype}.")
    counts: list[int] = tensor.tolist()
    if tensor.dim() != 1 or len(counts) != size:
        raise ValueError(f"There are {tensor.numel()} splits for {size} ranks.")
    if min(counts) < 0 or sum(counts) > length:
        raise ValueError(f"Splits {counts} do not fit a first dimension of {length}.")
    return counts
