"""Sampler that distributes a dataset to the ranks, and redistributes the remaining samples when the
number of ranks changes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sized
from itertools import cycle, islice
from typing import Any

from torch.utils.data import Sampler

from aitne_train.context import require_context


class ElasticSampler(Sampler):
    """Sampler for ``torch.utils.data.DataLoader`` that records which samples of an epoch were
    processed.

    Pass it to ``TorchState``, call ``record_batch`` after each batch, and ``set_epoch`` at the
    *end* of each epoch. After a reset, samples that were recorded before the last commit are not
    returned again.

    Args:
        dataset: any object with a length, which must not change.
        shuffle: whether samples are in random order, different for each epoch.
        seed: seed of the random order; the same on every rank.
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
        """Start the epoch number ``epoch``, with no sample processed yet."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Record that every rank has processed a batch of ``batch_size`` samples. The next
        ``reset`` distributes only the samples that remain.
        """
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the epoch and the number of its samples that all ranks together have
        processed.
        """
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict`` and distribute the remaining samples to the current
        ranks.
        """
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Distribute the samples of the epoch that were not processed yet to the current ranks."""
        world = require_context().world
        self.num_replicas, self.rank = world.size, world.rank
        order = list(range(len(self.dataset)))
        if self.shuffle:
            # Every rank draws the same order, which need not be secret.
            random.Random(self.seed + self.epoch).shuffle(order)  # noqa: S311
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        # Ranks get equally many: the first samples are repeated if there is a remainder.
        dealt = list(islice(cycle(self.remaining_indices), self.total_size))
        self.indices = dealt[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
