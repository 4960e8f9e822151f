"""Deals a data set out to ranks, and deals what is left out anew when their number changes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sized
from itertools import cycle, islice
from typing import Any

from torch.utils.data import Sampler

from aitne.distrib.context import current


class ElasticSampler(Sampler):
    """A sampler for ``torch.utils.data.DataLoader`` that knows how much of an epoch is done.

    Give it to ``TorchState``, call ``record_batch`` after each batch and ``set_epoch`` at the *end* of
    each epoch. After a reset, samples that were recorded before the last commit are not dealt again.

    Args:
        dataset: Anything with a length, which must not change.
        shuffle: Deal in random order, a new one each epoch.
        seed: Of that order; the same on every rank.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.num_replicas = 0
        self.rank = 0
        self.remaining_indices: list[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.indices: list[int] = []
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin epoch number ``epoch``: nothing of it is done."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """A batch of ``batch_size`` samples was processed on every rank; takes effect at ``reset``."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """Which epoch, and how many of its samples are done on all ranks together."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what ``state_dict`` gave, on today's ranks."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deal what is left of the epoch to the ranks there are now."""
        world = current().world
        self.num_replicas, self.rank = world.size, world.rank
        order = list(range(len(self.dataset)))
        if self.shuffle:
            # Every rank draws the same order. It is no secret.
            random.Random(self.seed + self.epoch).shuffle(order)  # noqa: S311
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        # Ranks get equally many: the first samples are dealt twice where it does not come out even.
        dealt = list(islice(cycle(self.remaining_indices), self.total_size))
        self.indices = dealt[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
