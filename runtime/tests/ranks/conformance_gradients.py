"""Conformance checks of the gradients of each collective."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from runtime.tests.ranks.conformance import Case, check, equal


def leaf(*shape: int, value: float = 1.0) -> torch.Tensor:
    return torch.full(shape, value, dtype=torch.float64, requires_grad=True)


def slope(shape: tuple[int, ...], rank: int) -> torch.Tensor:
    """Return the gradient of this rank's loss, which differs between ranks."""
    return (
        torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape) + rank
    )


def back(outputs: Sequence[torch.Tensor], *slopes: float) -> None:
    """Start backward with contiguous gradients, which the real Horovod requires; those of a sum are not."""
    full = [torch.full_like(output, value) for output, value in zip(outputs, slopes, strict=True)]
    torch.autograd.backward(list(outputs), full)


@check()
def of_allreduce(case: Case) -> None:
    hvd, size = case.hvd, case.size
    every = sum(slope((3, 2), rank) for rank in range(size))
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1.0 / size)):
        own = leaf(3, 2, value=case.rank)
        hvd.allreduce(own, op=op).backward(slope((3, 2), case.rank))
        equal(own.grad, every * factor, 1e-12)
    own = leaf(3, 2)
    scaled = hvd.allreduce(own, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    scaled.backward(slope((3, 2), case.rank))
    equal(own.grad, every * 0.5, 1e-12)


@check()
def of_allreduce_through_compression(case: Case) -> None:
    own = torch.ones(4, requires_grad=True)
    back([case.hvd.allreduce(own, op=case.hvd.Sum, compression=case.hvd.Compression.fp16)], 1.0)
    equal(own.grad, torch.full((4,), float(case.size)))


@check()
def of_grouped_allreduce(case: Case) -> None:
    hvd = case.hvd
    own = [leaf(2), leaf(3, 1)]
    one, two = hvd.grouped_allreduce(own, op=hvd.Sum)
    back([one, two], 3.0, case.rank + 1.0)
    equal(own[0].grad, torch.full((2,), 3.0 * case.size, dtype=torch.float64))
    total = float(sum(range(1, case.size + 1)))
    equal(own[1].grad, torch.full((3, 1), total, dtype=torch.float64))


@check()
def of_allgather(case: Case) -> None:
    lengths = [rank + 1 for rank in range(case.size)]
    own = leaf(lengths[case.rank], 2)
    case.hvd.allgather(own).backward(slope((sum(lengths), 2), case.rank))
    mean = sum(slope((sum(lengths), 2), rank) for rank in range(case.size)) / case.size
    begin = sum(lengths[: case.rank])
    equal(own.grad, mean[begin : begin + lengths[case.rank]], 1e-12)


@check()
def of_grouped_allgather(case: Case) -> None:
    own = [leaf(case.rank + 1), leaf(2, 2)]
    one, two = case.hvd.grouped_allgather(own)
    assert one.shape[0] == sum(range(1, case.size + 1))
    assert two.shape == (2 * case.size, 2)
    back([one, two], 2.0, case.rank + 1.0)
    equal(own[0].grad, torch.full((case.rank + 1,), 2.0, dtype=torch.float64), 1e-12)
    mean = (case.size + 1) / 2
    equal(own[1].grad, torch.full((2, 2), mean, dtype=torch.float64), 1e-12)


@check()
def of_broadcast(case: Case) -> None:
    for root in range(case.size):
        own = leaf(3)
        case.hvd.broadcast(own, root).backward(slope((3,), case.rank))
        mean = sum(slope((3,), rank) for rank in range(case.size)) / case.size
        equal(own.grad, mean if case.rank == root else torch.zeros_like(mean), 1e-12)


@check()
def of_alltoall(case: Case) -> None:
    splits = torch.tensor([(case.rank + to) % 3 for to in range(case.size)], dtype=torch.int32)
    own = leaf(int(splits.sum()), 2)
    output, _ = case.hvd.alltoall(own, splits)
    output.backward(torch.full_like(output, case.rank + 1.0))
    wanted = torch.repeat_interleave(torch.arange(case.size, dtype=torch.float64) + 1, splits)
    equal(own.grad, wanted[:, None].expand(-1, 2))
    even = leaf(2 * case.size)
    back([case.hvd.alltoall(even)], 1.0)
    equal(even.grad, torch.ones(2 * case.size, dtype=torch.float64))


@check()
def of_reducescatter(case: Case) -> None:
    hvd, size = case.hvd, case.size
    for op, factor in ((hvd.Sum, float(size)), (hvd.Average, 1.0)):
        own = leaf(2 * size, 3)
        share = hvd.reducescatter(own, op=op, prescale_factor=0.5, postscale_factor=3.0)
        share.backward(torch.full_like(share, case.rank + 1.0))
        ranks = torch.arange(1.0, size + 1, dtype=torch.float64)
        wanted = torch.repeat_interleave(ranks, 2)[:, None].expand(-1, 3)
        equal(own.grad, wanted * factor * 1.5, 1e-12)


@check()
def of_grouped_reducescatter(case: Case) -> None:
    hvd = case.hvd
    own = [leaf(case.size), leaf(case.size, 2)]
    one, two = hvd.grouped_reducescatter(own, op=hvd.Sum)
    back([one, two], 1.0, 2.0)
    equal(own[0].grad, torch.full((case.size,), float(case.size), dtype=torch.float64))
    equal(own[1].grad, torch.full((case.size, 2), 2.0 * case.size, dtype=torch.float64))


@check()
def through_a_network_whose_middle_is_exchanged(case: Case) -> None:
    """All ranks compute the same, so a single process has the same gradient."""
    torch.manual_seed(3)
    network = torch.nn.Linear(4, 4).double()
    batch = torch.randn(5, 4, dtype=torch.float64)
    case.hvd.allreduce(network(batch)).pow(2).sum().backward()
    got = network.weight.grad.clone()
    network.zero_grad()
    network(batch).pow(2).sum().backward()
    equal(got, network.weight.grad, 1e-9)
