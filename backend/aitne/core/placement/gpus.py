"""The best subset of the GPUs of a node, found exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_GPUS = 16
"""Maximum number of free GPUs that are searched: 16 have 12,870 subsets of eight."""


def best_gpus(weights: Sequence[Sequence[int]], free: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the best ``count`` GPUs out of ``free``, increasing.

    Sort order of the subsets: by the largest sum of the weights of their links, then by the largest
    smallest weight, then by the largest sum of the links between the GPUs that remain free, which
    therefore are the least fragmented, then by the lowest indices.

    Args:
        weights: weight of the link of each pair of GPUs of the node; symmetric.
        free: indices of the free GPUs.
        count: number of GPUs to take.

    Raises:
        ValueError: ``free`` has fewer than ``count`` or more than 16 GPUs, or an index twice or
            outside of ``weights``.
    """
    indices = sorted(set(free))
    if len(indices) != len(free) or not all(0 <= index < len(weights) for index in indices):
        raise ValueError(f"{list(free)} are not different GPUs of a node with {len(weights)}")
    if not 0 < count <= len(indices) <= MAX_GPUS:
        raise ValueError(
            f"{count} of {len(indices)} free GPUs cannot be chosen: at least as many must be free, and "
            f"at most {MAX_GPUS}"
        )
    sums = {index: sum(weights[index][other] for other in indices) for index in indices}
    best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None
    for chosen, total, smallest in _subsets(weights, indices, count):
        # The sum of all free links is constant; those that a subset touches are no longer free.
        touched = sum(sums[index] for index in chosen) - total
        score = (total, smallest, -touched)
        if best is None or score > best[0]:
            best = (score, chosen)
    if best is None:
        raise AssertionError("there is at least one subset")
    return best[1]


def _subsets(
    weights: Sequence[Sequence[int]], indices: Sequence[int], count: int
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield all subsets in lexicographic order with the sum and the smallest of their weights; 0
    for a single GPU."""
    waiting: list[tuple[tuple[int, ...], int, int, int]] = [((), 0, 0, 0)]
    while waiting:
        chosen, start, total, smallest = waiting.pop()
        if len(chosen) == count:
            yield chosen, total, smallest
            continue
        last = len(indices) - (count - len(chosen))
        for place in range(last, start - 1, -1):
            index = indices[place]
            links = [weights[index][other] for other in chosen]
            low = min(links, default=0)
            waiting.append(
                (
                    (*chosen, index),
                    place + 1,
                    total + sum(links),
                    low if len(chosen) < 2 else min(smallest, low),
                )
            )
