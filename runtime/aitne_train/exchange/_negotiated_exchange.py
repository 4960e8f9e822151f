"""Exchange of a step's gradients by ordinary collectives, each negotiated by name.

Used while a rank waits in ``join()`` that has never taken part in the gradient exchange and thus
has no buckets to fill with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aitne_train import collectives
from aitne_train.collective_request import ReduceOp
from aitne_train.exchange._rank_agreement import ExchangeOptions


def exchange_by_negotiation(
    options: ExchangeOptions,
    name: str,
    names: Sequence[str],
    parameters: Sequence[torch.nn.Parameter],
) -> None:
    """Exchange all gradients among the ranks that have not called ``join``, without compression.
    Every such rank must call this.

    A gradient that is sparse on this rank is sent as a dense tensor, because it may be dense on
    other ranks.

    Args:
        options: options of the exchange.
        name: name by which the calls of the ranks are matched; the next step may use it again.
        names: names of ``parameters``; equal on every rank, in any order.
        parameters: parameters with the gradients of this step; a missing gradient counts as zeros.

    Raises:
        HorovodInternalError: zeros would change the result of the operation (such as Max), or the
            connection to a rank is lost.
    """
    average = options.op is ReduceOp.AVERAGE
    before, after = options.compute_scales(options.process_set.size() or 1)
    ordered = [parameters[number] for number in sorted(range(len(names)), key=names.__getitem__)]
    grads = [parameter.grad for parameter in ordered]
    dense = [_make_dense(parameter) for parameter in ordered]
    handles = [
        collectives.allreduce_async_(
            torch.view_as_real(tensor) if tensor.is_complex() else tensor,
            name=f"{name}.{number}",
            op=ReduceOp.SUM if average else options.op,
            prescale_factor=before,
            postscale_factor=after,
            process_set=options.process_set,
        )
        for number, tensor in enumerate(dense)
    ]
    for handle in handles:
        collectives.synchronize(handle)
    for parameter, grad, whole in zip(ordered, grads, dense, strict=True):
        if grad is not None and grad.is_sparse:
            parameter.grad = whole.to_sparse(grad.sparse_dim())
        elif parameter.requires_grad:
            parameter.grad = whole


def _make_dense(parameter: torch.nn.Parameter) -> torch.Tensor:
    grad = parameter.grad
    if grad is None:
        return torch.zeros_like(parameter)
    return grad.to_dense() if grad.is_sparse else grad
