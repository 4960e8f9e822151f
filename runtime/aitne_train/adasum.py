"""Adasum: a combination of gradients that averages equal ones and adds orthogonal ones.

For two gradients (Maleki et al. 2021, "Scaling Distributed Training with Adaptive Summation", MLSys)::

    adasum(a, b) = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b

Ranks are combined in pairs, then pairs of pairs, and so on, by recursive halving of the vector; a
rank sends about 2n elements for any number of ranks. If their number is not a power of two, let p
be the largest power of two below it: rank p and higher ranks are first combined with one of the
other ranks each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aitne_train.transport.base import Transport

_CHUNK = 1 << 20
"""Number of elements converted to float64 at a time."""


def reduce_by_adasum(transport: Transport, flat: torch.Tensor, counts: Sequence[int]) -> None:
    """Combine the tensors ``flat`` of all ranks by Adasum, in place. Every rank must call this.

    Args:
        transport: transport that connects the ranks.
        flat: contiguous one-dimensional tensor of floats. 16-bit elements are sent as float32.
        counts: lengths of the parts of ``flat``, in order. Each part, such as the gradient of one
            layer, is combined separately, because gradients of different layers differ much in
            size.

    Raises:
        TransportError: the connection to a rank is lost.
    """
    if transport.size == 1:
        return
    work = flat if flat.dtype in (torch.float32, torch.float64) else flat.float()
    ends = torch.tensor(list(counts)).cumsum(0).tolist()
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    power = 1 << (transport.size.bit_length() - 1)
    _fold_high_ranks(transport, work, bounds, power)
    low, high = _halve_recursively(transport, work, bounds, power)
    _distribute_result(transport, work, power, low, high)
    if work is not flat:
        flat.copy_(work)


def _fold_high_ranks(
    transport: Transport, work: torch.Tensor, bounds: list[tuple[int, int]], power: int
) -> None:
    """Combine the data of the ranks numbered ``power`` and higher with the data of lower ranks,
    which then continue alone. ``power`` is the largest power of two that is not above the number of
    ranks.
    """
    if power == transport.size:
        return
    rank, size = transport.rank, transport.size
    length = work.numel()
    send, receive = [0] * size, [0] * size
    if rank >= power:
        send[rank - power] = length
    elif rank + power < size:
        receive[rank + power] = length
    theirs = work.new_empty(sum(receive))
    transport.alltoall(theirs, work if rank >= power else work[:0], send, receive)
    if sum(receive):
        _combine_parts(work, theirs, bounds, 0, _compute_dot_products(work, theirs, bounds, 0))


def _halve_recursively(
    transport: Transport, work: torch.Tensor, bounds: list[tuple[int, int]], power: int
) -> tuple[int, int]:
    """Combine the data of the first ``power`` ranks by recursive halving; return the range of
    ``work`` (start and end) that holds the final result on this rank.
    """
    rank, size = transport.rank, transport.size
    low, high = 0, work.numel()
    distance = 1
    while distance < power:
        send, receive = [0] * size, [0] * size
        middle = (low + high) // 2
        upper = bool(rank & distance)
        kept_range, sent_range = (
            ((middle, high), (low, middle)) if upper else ((low, middle), (middle, high))
        )
        if rank < power:
            send[rank ^ distance] = sent_range[1] - sent_range[0]
            receive[rank ^ distance] = kept_range[1] - kept_range[0]
            low, high = kept_range
        theirs = work.new_empty(sum(receive))
        outgoing = work[sent_range[0] : sent_range[1]] if rank < power else work[:0]
        transport.alltoall(theirs, outgoing, send, receive)
        part = work[low:high] if rank < power else work[:0]
        partial = _compute_dot_products(part, theirs, bounds, low)
        if upper:  # Columns are a.a, a.b, b.b, where a is of the rank whose bit is not set.
            partial = partial.flip(1).contiguous()
        every = partial.new_empty(size * partial.numel())
        transport.allgather(every, partial.view(-1), [partial.numel()] * size)
        if rank < power:
            first = rank // (2 * distance) * 2 * distance
            shares = every.view(size, *partial.shape)[first : first + 2 * distance]
            products = shares.sum(0)
            _combine_parts(part, theirs, bounds, low, products.flip(1) if upper else products)
        distance *= 2
    return low, high


def _distribute_result(
    transport: Transport, work: torch.Tensor, power: int, low: int, high: int
) -> None:
    """Distribute the whole result to every rank; ``low`` and ``high`` delimit the part of ``work``
    that this rank has.
    """
    ranges = [_split_range(rank, power, work.numel()) for rank in range(power)]
    counts = [end - begin for begin, end in ranges] + [0] * (transport.size - power)
    gathered = torch.empty_like(work)
    local_part = work[low:high] if transport.rank < power else work[:0]
    transport.allgather(gathered, local_part, counts)
    for (begin, end), part in zip(ranges, gathered.split(counts[:power]), strict=True):
        work[begin:end] = part


def _split_range(rank: int, power: int, length: int) -> tuple[int, int]:
    low, high = 0, length
    distance = 1
    while distance < power:
        middle = (low + high) // 2
        low, high = (middle, high) if rank & distance else (low, middle)
        distance *= 2
    return low, high


def _compute_dot_products(
    local: torch.Tensor, theirs: torch.Tensor, bounds: list[tuple[int, int]], start: int
) -> torch.Tensor:
    """Return the dot products ``local.local``, ``local.theirs`` and ``theirs.theirs`` as float64,
    one row for each part in ``bounds``.
    """
    products = local.new_zeros((len(bounds), 3), dtype=torch.float64)
    for index, (begin, end) in enumerate(bounds):
        first, last = max(begin - start, 0), min(end - start, local.numel())
        for chunk in range(first, last, _CHUNK):
            a = local[chunk : min(chunk + _CHUNK, last)].double()
            b = theirs[chunk : min(chunk + _CHUNK, last)].double()
            products[index] += torch.stack((a.dot(a), a.dot(b), b.dot(b)))
    return products


def _combine_parts(
    local: torch.Tensor,
    theirs: torch.Tensor,
    bounds: list[tuple[int, int]],
    start: int,
    products: torch.Tensor,
) -> None:
    """Write the Adasum of ``local`` and ``theirs`` into ``local``, with the dot products from
    ``_compute_dot_products``.
    """
    for (begin, end), (local_square, both, other) in zip(bounds, products.tolist(), strict=True):
        first, last = max(begin - start, 0), min(end - start, local.numel())
        if first >= last:
            continue
        part = local[first:last]
        part *= 1 - both / (2 * local_square) if local_square else 1.0
        part.add_(theirs[first:last], alpha=1 - both / (2 * other) if other else 1.0)
