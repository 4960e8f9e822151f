"""Comparison of the values that must be equal for one optimizer on all ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aitne_train.collective_request import ReduceOp
from aitne_train.compress.base import BucketCompressor
from aitne_train.exchange._bucket_fill import choose_strides
from aitne_train.process_sets import ProcessSet
from aitne_train.transport.base import Transport


@dataclass
class ExchangeOptions:
    """Arguments of ``DistributedOptimizer`` that affect the exchange of gradients; they must be
    equal on all ranks.
    """

    op: ReduceOp
    predivide: float
    """``gradient_predivide_factor`` of ``DistributedOptimizer``."""
    compression: str
    """Name of the compression, compared between ranks."""
    compressor: Callable[[], BucketCompressor]
    """Function that creates the compressor of a bucket."""
    error_feedback: bool
    """Whether what compression has lost is added to the gradients of the next step."""
    whole: bool
    """Whether each gradient is compressed alone and in its own shape, instead of in a flat bucket
    of several."""
    groups: Sequence[Sequence[torch.Tensor]] | int | None
    """Lists of parameters whose gradients are exchanged together, or a number of such groups;
    None: the buckets are formed by size."""
    sparse_as_dense: bool
    process_set: ProcessSet
    passes: int
    """Number of backward passes whose gradients are accumulated for one step."""
    strategy: str
    """Name of the exchange strategy, compared between ranks."""

    def compute_scales(self, size: int) -> tuple[float, float]:
        """Return the two factors by which gradients are multiplied, before and after they are
        summed over ``size`` ranks.

        For an average without ``predivide``, gradients are divided by ``size`` before the sum,
        which needs no further pass over them.
        """
        if self.op is not ReduceOp.AVERAGE:
            return 1.0, 1.0
        if self.predivide == 1.0:
            return 1.0 / size, 1.0
        return 1.0 / self.predivide, self.predivide / size


def build_signature(
    options: ExchangeOptions,
    names: Sequence[str],
    parameters: Sequence[torch.nn.Parameter],
    cap: int,
) -> dict[str, str]:
    """Return the values that must be equal on all ranks, by name. They are compared when the
    channel is opened, and the first difference is reported on all ranks. ``cap`` is the bucket size
    in bytes.
    """
    groups: Any = options.groups
    if isinstance(groups, list):
        name_of = {id(parameter): name for parameter, name in zip(parameters, names, strict=True)}
        groups = [[name_of.get(id(parameter), "") for parameter in members] for members in groups]
    descriptions = {
        f"parameter {name}": f"{str(parameter.dtype)[6:]} {tuple(parameter.shape)} strides {choose_strides(parameter)}"
        for name, parameter in zip(names, parameters, strict=True)
    }
    return {
        **dict(sorted(descriptions.items())),
        "op": options.op.name,
        "gradient_predivide_factor": str(options.predivide),
        "compression": options.compression,
        "groups": str(groups),
        "sparse_as_dense": str(options.sparse_as_dense),
        "strategy": options.strategy,
        "HOROVOD_FUSION_THRESHOLD": str(cap),
        "HOROVOD_AUTOTUNE": os.environ.get("HOROVOD_AUTOTUNE", "0"),
    }


def compare_observed(
    transport: Transport,
    names: Sequence[str],
    parameters: Sequence[torch.nn.Parameter],
    came: Sequence[int],
) -> tuple[list[int], dict[int, int]]:
    """Agree with the other ranks on the order of the gradients and on which gradients are sparse,
    from what each rank has observed in its first backward pass. Every rank must call this.

    Args:
        transport: transport of the participating ranks.
        names: names of ``parameters``; equal on every rank, in any order.
        parameters: parameters with the gradients of the first step.
        came: indices in ``parameters``, in the order in which the gradients were computed on this
            rank.

    Returns:
        Indices of all parameters, in the order of rank 0; and for each index whose gradient is
            sparse on any rank, its number of sparse dimensions.
    """
    canonical = sorted(range(len(names)), key=names.__getitem__)
    count = len(canonical)
    place = {number: position for position, number in enumerate(came)}
    row = []
    for number in canonical:
        grad = parameters[number].grad
        # Gradients that have not arrived come last, the last layer first as in backward.
        row.append(place.get(number, 2 * count - number))
        row.append(grad.sparse_dim() if grad is not None and grad.is_sparse else 0)
    local = torch.tensor(row, dtype=torch.int64, device=parameters[0].device)
    every = local.new_empty(len(row) * transport.size)
    transport.allgather(every, local, [len(row)] * transport.size)
    observed = every.view(transport.size, count, 2).cpu()
    order = [canonical[index] for index in observed[0, :, 0].argsort().tolist()]
    dims = observed[:, :, 1].amax(0).tolist()
    return order, {canonical[k]: dim for k, dim in enumerate(dims) if dim}
