"""Batch normalization over the combined batches of all ranks, on CPU and GPU alike."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.modules.batchnorm import _BatchNorm

from aitne.distrib._submit import synchronize
from aitne.distrib.context import current
from aitne.distrib.ops import Sum, allgather_async, allreduce_async


class SyncBatchNorm(_BatchNorm):
    """Batch normalization as in ``BatchNorm1d``, ``2d`` and ``3d``, over the combined batch of all
    ranks.

    Ranks may have batches of different sizes, also empty ones. Gradients of ``weight`` and ``bias`` are
    of this rank's batch; the optimizer exchanges them as those of any other parameter.

    Args:
        num_features: Channels ``C`` of inputs ``(N, C, ...)``.
        eps: Added to the variance.
        momentum: Weight of the newest batch in the running statistics; None if all batches weigh the same.
        affine: Whether it has ``weight`` and ``bias``.
        track_running_stats: Whether it keeps statistics for evaluation; otherwise it always takes the
            batch's.
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
        """Normalize the input. Collective while training.

        Raises:
            ValueError: the input has fewer than two dimensions.
        """
        self._check_input_dim(input)
        tracks = self.track_running_stats
        weight_of_batch = 0.0 if self.momentum is None else self.momentum
        if self.training and tracks:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                weight_of_batch = 1.0 / float(self.num_batches_tracked)
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
        if current().world.size == 1:
            return F.batch_norm(
                input, mean, var, self.weight, self.bias, True, weight_of_batch, self.eps
            )
        return _Normalize.apply(input, self.weight, self.bias, mean, var, self.eps, weight_of_batch)


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
        momentum: float,
    ) -> torch.Tensor:
        rows = _channels_last(input)
        count, mean, var = _whole_batch(rows)
        if running_mean is not None and running_var is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = var * (count / max(count - 1, 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        scale = torch.rsqrt(var + eps).to(rows.dtype)
        centre = mean.to(rows.dtype)
        normal = (rows - centre) * scale
        ctx.save_for_backward(normal, weight, scale)
        ctx.count, ctx.dtype = count, input.dtype
        output = normal if weight is None else normal * weight.to(rows.dtype)
        if bias is not None:
            output = output + bias.to(rows.dtype)
        return _channels_second(output, input.shape).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        normal, weight, scale = ctx.saved_tensors
        rows = _channels_last(grad)
        sum_grad, sum_product = rows.sum(0), (rows * normal).sum(0)
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack((sum_grad, sum_product))
            whole = synchronize(allreduce_async(sums, name="sync_batch_norm.backward", op=Sum))
            means = whole / ctx.count
            grad_rows = (rows - means[0] - normal * means[1]) * scale
            if weight is not None:
                grad_rows = grad_rows * weight.to(rows.dtype)
            grad_input = _channels_second(grad_rows, grad.shape).to(ctx.dtype)
        grad_weight = sum_product.to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = sum_grad.to(weight.dtype) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None


def _whole_batch(rows: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Return size, mean and variance of all ranks' rows (Chan et al. 1983).

    Computed from means and variances, as sums of squares would lose all digits if the mean is
    large.
    """
    values = rows.double()
    count = values.new_full((1,), rows.shape[0])
    if rows.shape[0]:
        statistics = torch.cat((count, values.mean(0), values.var(0, correction=0)))
    else:
        statistics = torch.cat((count, values.new_zeros(2 * rows.shape[1])))
    handle = allgather_async(statistics[None], name="sync_batch_norm.forward")
    every = synchronize(handle)
    counts = every[:, :1]
    means, variances = every[:, 1:].chunk(2, dim=1)
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    var = (counts * (variances + (means - mean) ** 2)).sum(0) / total
    return float(total), mean, var


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``(N, C, ...)`` as rows of C, in at least float32."""
    rows = tensor.movedim(1, -1).reshape(-1, tensor.shape[1])
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def _channels_second(rows: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return rows.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1).contiguous()
