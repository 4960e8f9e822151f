"""Number of processors per rank. If a rank has only one, the exchange cannot overlap with
computation.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence

import torch

from aitne_train.transport.base import Transport

_WORDS = 32
_BITS = 32
"""Number of bits in each word of the processor mask, which covers 1,024 processors in total."""


def count_processors_per_rank(transport: Transport, nodes: Sequence[int]) -> float:
    """Return the number of processors per rank on the node where it is lowest. Every rank must call
    this, and all get the same result.

    Args:
        transport: transport of the participating ranks.
        nodes: for each participating rank, the number of its node.
    """
    mask = [0] * _WORDS
    for cpu in os.sched_getaffinity(0):
        mask[cpu // _BITS % _WORDS] |= 1 << cpu % _BITS
    every = torch.empty(_WORDS * transport.size, dtype=torch.int64)
    transport.allgather(every, torch.tensor(mask), [_WORDS] * transport.size)
    masks: dict[int, list[list[int]]] = defaultdict(list)
    for node, words in zip(nodes, every.view(transport.size, _WORDS).tolist(), strict=True):
        masks[node].append(words)
    return min(_count_shared(ranks) / len(ranks) for ranks in masks.values())


def _count_shared(ranks: Sequence[Sequence[int]]) -> int:
    count = 0
    for words in zip(*ranks, strict=True):
        union = 0
        for word in words:
            union |= word
        count += union.bit_count()
    return count
