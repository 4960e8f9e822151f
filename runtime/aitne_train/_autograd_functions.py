"""Autograd functions of the collectives. Their gradients follow Horovod's rules, on which its
users' programs rely.

Each rank has its own loss, and the gradient of a tensor is scaled as if losses were averaged where
the collective averages. So the gradient of an allreduce is an allreduce with the same operation and
scales, and that of a gathered or broadcast tensor is averaged over the ranks that have a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aitne_train import _collective_preparation
from aitne_train.collective_request import ReduceOp
from aitne_train.context import require_context
from aitne_train.process_sets import ProcessSet


class Allreduce(torch.autograd.Function):
    """Differentiable allreduce of one tensor or, if ``grouped``, of several tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        grouped: bool,
        name: str | None,
        op: ReduceOp,
        scales: tuple[float, float],
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Any:
        """Return the tensors, reduced over all ranks."""
        ctx.arguments = (grouped, op, scales, process_set)
        if grouped:
            return _collective_preparation.prepare_grouped_allreduce(
                tensors, name, op, scales, process_set
            ).run()
        return _collective_preparation.prepare_allreduce(
            tensors[0], name, op, scales, process_set
        ).run()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the input gradients: the output gradients reduced over the ranks of the process
        set, with the same operation and scale factors.
        """
        grouped, op, scales, process_set = ctx.arguments
        reduced = Allreduce.apply(grouped, None, op, scales, process_set, *grads)
        return (None,) * 5 + (reduced if grouped else (reduced,))


class Allgather(torch.autograd.Function):
    """Differentiable allgather of one tensor or, if ``grouped``, of several tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        grouped: bool,
        name: str | None,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Any:
        """Return the tensors of all ranks, concatenated along their first dimension."""
        if grouped:
            call = _collective_preparation.prepare_grouped_allgather(tensors, name, process_set)
        else:
            call = _collective_preparation.prepare_allgather(tensors[0], name, process_set)
        ctx.arguments = (grouped, process_set, [tensor.shape[0] for tensor in tensors])
        return call.run()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the part of the averaged gradients that belongs to this rank's tensors."""
        _, process_set, lengths = ctx.arguments
        averaged = Allreduce.apply(True, None, ReduceOp.AVERAGE, (1.0, 1.0), process_set, *grads)
        every = Allgather.apply(False, None, process_set, torch.tensor([lengths]))
        begins = every[: process_set.rank()].sum(0).tolist()
        parts = [
            grad.narrow(0, begin, length)
            for grad, begin, length in zip(averaged, begins, lengths, strict=True)
        ]
        return (None, None, None, *parts)


class Broadcast(torch.autograd.Function):
    """Differentiable broadcast of one tensor."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        """Return the tensor of the root rank."""
        ctx.arguments = (root_rank, process_set)
        return _collective_preparation.prepare_broadcast(tensor, root_rank, name, process_set).run()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Return the gradient averaged over all ranks on the root rank, and zeros on other ranks."""
        root_rank, process_set = ctx.arguments
        averaged = Allreduce.apply(False, None, ReduceOp.AVERAGE, (1.0, 1.0), process_set, grad)
        if require_context().world.rank != root_rank:
            averaged = torch.zeros_like(averaged)
        return averaged, None, None, None


class Alltoall(torch.autograd.Function):
    """Differentiable alltoall of one tensor."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> Any:
        """Return the received rows; if ``splits`` was given, also the number of rows received from
        each rank.
        """
        output, received = _collective_preparation.prepare_alltoall(
            tensor, splits, name, process_set
        ).run()
        ctx.arguments = (received, process_set, tensor.shape[0])
        if splits is None:
            return output
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *ignored: torch.Tensor) -> Any:
        """Send the gradient of each row back to the rank that sent the row, and return the
        gradients received here.
        """
        received, process_set, length = ctx.arguments
        returned, _ = Alltoall.apply(grad, received, None, process_set)
        if returned.shape[0] < length:  # Rows beyond the splits were not sent.
            rest = returned.new_zeros((length - returned.shape[0], *returned.shape[1:]))
            returned = torch.cat((returned, rest))
        return returned, None, None, None


class Reducescatter(torch.autograd.Function):
    """Differentiable reducescatter of one tensor or, if ``grouped``, of several tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        grouped: bool,
        name: str | None,
        op: int,
        scales: tuple[float, float],
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Any:
        """Return this rank's part, along the first dimension, of the reduced tensors."""
        ctx.arguments = (grouped, op, scales, process_set)
        if grouped:
            return _collective_preparation.prepare_grouped_reducescatter(
                tensors, name, op, scales, process_set
            ).run()
        return _collective_preparation.prepare_reducescatter(
            tensors[0], name, op, scales, process_set
        ).run()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of all ranks, concatenated and scaled by the same factors as the
        values.
        """
        grouped, op, scales, process_set = ctx.arguments
        factor = scales[0] * scales[1]
        if op == ReduceOp.SUM:
            factor *= process_set.size()
        scaled: Sequence[torch.Tensor] = [grad * factor for grad in grads]
        gathered = Allgather.apply(grouped, None, process_set, *scaled)
        return (None,) * 5 + (gathered if grouped else (gathered,))
