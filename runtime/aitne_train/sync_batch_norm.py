"""Batch normalization over the combined batches of all ranks, on CPU and GPU.

Statistics are exchanged over a separate transport in the order in which the layers run, so that
nothing is negotiated, and on a GPU the CPU does not wait. This code has not been tested on GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.modules.batchnorm import _BatchNorm

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.context import Context, require_context
from aitne_train.transport.base import Reduction, TransportError


class SyncBatchNorm(_BatchNorm):
    """Batch normalization as in ``BatchNorm1d``, ``BatchNorm2d`` and ``BatchNorm3d``, but over the
    combined batches of all ranks.

    The batches of the ranks may differ in size and may be empty. The gradients of ``weight`` and
    ``bias`` are computed from this rank's batch; the optimizer exchanges them like those of any
    other parameter.

    Args:
        num_features: number of channels ``C`` of inputs ``(N, C, ...)``.
        eps: value added to the variance.
        momentum: weight of the newest batch in the running statistics; None for equal weights of
            all batches.
        affine: whether the layer has ``weight`` and ``bias``.
        track_running_stats: whether the layer keeps running statistics for evaluation; otherwise it
            always uses those of the batch.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Normalize the input. During training every rank must call this.

        Raises:
            ValueError: the input has fewer than two dimensions.
        """
        self._check_input_dim(input)
        tracks = self.track_running_stats
        momentum: Any = self.momentum
        if self.training and tracks:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked
        if not self.training and tracks:
            return F.batch_norm(
                input,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                False,
                0.0,
                self.eps,
            )
        mean, var = (
            (self.running_mean, self.running_var) if self.training and tracks else (None, None)
        )
        if require_context().world.size == 1:
            momentum = 0.0 if momentum is None else float(momentum)
            return F.batch_norm(input, mean, var, self.weight, self.bias, True, momentum, self.eps)
        return _Normalize.apply(input, self.weight, self.bias, mean, var, self.eps, momentum)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,  # noqa: A002
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        eps: float,
        momentum: Any,
    ) -> torch.Tensor:
        count, mean, var = _compute_batch_statistics(input)
        if running_mean is not None and running_var is not None:
            share = momentum
            if isinstance(share, torch.Tensor):
                share = share.to(running_mean.dtype)
            running_mean.lerp_(mean.to(running_mean.dtype), share)
            unbiased = var * (count / (count - 1).clamp(min=1))
            running_var.lerp_(unbiased.to(running_var.dtype), share)
        wide = _choose_wide_type(input)
        mean, var = mean.to(wide), var.to(wide)
        ctx.save_for_backward(input, weight, mean, torch.rsqrt(var + eps), count.to(wide))
        return F.batch_norm(
            input,
            mean,
            var,
            None if weight is None else weight.to(wide),
            None if bias is None else bias.to(wide),
            False,
            0.0,
            eps,
        )

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        input, weight, mean, scale, count = ctx.saved_tensors  # noqa: A001
        wide = _choose_wide_type(input)
        over = _list_reduced_dimensions(input)
        per_channel = [1, -1, *[1] * (input.dim() - 2)]
        grads = grad.to(wide)
        centred = input - mean.view(per_channel)
        sum_grad = grads.sum(over)
        sum_product = (grads * centred).sum(over) * scale
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack((sum_grad, sum_product))
            mean_grad, mean_product = _get_exchange(input.device).allreduce_rows(sums) / count
            slope = scale if weight is None else scale * weight.to(wide)
            centred.mul_((scale * mean_product).view(per_channel))
            rest = torch.sub(grads, mean_grad.view(per_channel)).sub_(centred)
            grad_input = rest.mul_(slope.view(per_channel)).to(input.dtype)
        grad_weight = sum_product.to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = sum_grad.to(weight.dtype) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None


def _compute_batch_statistics(
    tensor: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return size, mean and variance of the combined batch of all ranks, in float64 (Chan et al.
    1983). Every rank must call this.

    They are computed from the ranks' means and variances, because sums of squares would lose all
    digits if the mean is large.
    """
    channels = tensor.shape[1]
    size = tensor.numel() // channels if channels else 0
    local = tensor.new_zeros(1 + 2 * channels, dtype=torch.float64)
    if size:
        local[0] = size
        var, mean = torch.var_mean(
            tensor.to(_choose_wide_type(tensor)), _list_reduced_dimensions(tensor), correction=0
        )
        local[1:] = torch.cat((mean, var))
    every = _get_exchange(tensor.device).gather_rows(local)
    counts = every[:, :1]
    means, variances = every[:, 1:].chunk(2, dim=1)
    total = counts.sum().clamp(min=1)
    mean = (counts * means).sum(0) / total
    var = (counts * (variances + (means - mean) ** 2)).sum(0) / total
    return total, mean, var


def _list_reduced_dimensions(tensor: torch.Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _choose_wide_type(tensor: torch.Tensor) -> torch.dtype:
    """Return the type in which the elements of the tensor are summed: float64 or float32."""
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


class _StatisticsExchange:
    """Exchange of statistics between all ranks, which must make the same calls in the same order."""

    def __init__(self, here: Context, device: torch.device) -> None:
        self._channel = here.open_channel("sync_batch_norm", {}, device=str(device))
        self._channel.on_joined(_refuse_step)
        self._recorder = here.recorder
        self._step = 0

    def gather_rows(self, row: torch.Tensor) -> torch.Tensor:
        """Return a matrix whose rows are the one-dimensional tensors ``row`` of all ranks."""
        transport = self._channel.transport
        every = row.new_empty(transport.size, row.numel())
        call = partial(transport.allgather, every.view(-1), row, [row.numel()] * transport.size)
        self._run_collective("allgather", row.nbytes, call)
        return every

    def allreduce_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Replace ``rows`` by its sum over all ranks, and return it."""
        call = partial(self._channel.transport.allreduce, rows.view(-1), Reduction.SUM)
        self._run_collective("allreduce", rows.nbytes, call)
        return rows

    @mark_collective("SyncBatchNorm")
    def _run_collective(self, op: str, nbytes: int, call: Callable[[], None]) -> None:
        self._step += 1
        self._channel.begin_step(self._step)
        began = time.monotonic_ns()
        try:
            with self._channel.limit:
                call()
        except TransportError as error:
            raise self._channel.make_failure(error) from error
        size = self._channel.transport.size
        self._recorder.add(op, nbytes, size, began, time.monotonic_ns())


_exchanges: WeakKeyDictionary[Context, dict[str, _StatisticsExchange]] = WeakKeyDictionary()


def _get_exchange(device: torch.device) -> _StatisticsExchange:
    """Return the exchange for tensors on this device; the first call connects it, so that every
    rank must make it.
    """
    here = require_context()
    of_context = _exchanges.setdefault(here, {})
    if device.type not in of_context:
        of_context[device.type] = _StatisticsExchange(here, device)
    return of_context[device.type]


def _refuse_step(_step: int) -> None:
    """Raise ``RuntimeError``, because other ranks normalize a batch while this rank waits in
    ``join``.
    """
    raise RuntimeError("SyncBatchNorm needs a batch of every rank; it may be empty.")
