"""State, in addition to the weights, that a run needs to resume with the same results as an
uninterrupted run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler


def random_state() -> dict[str, Any]:
    """Return the state of all random number generators: those of PyTorch on CPU and GPUs, of NumPy
    and of Python.

    The state consists of tensors, numbers and text only, so that loading it from a checkpoint
    executes no code.
    """
    version, numbers, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=False)
    inner = numpy_state["state"]
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "python": [version, list(numbers), gauss],
        "numpy": {
            **{key: numpy_state[key] for key in ("bit_generator", "has_gauss", "gauss")},
            "key": torch.from_numpy(inner["key"].astype(np.int64)),
            "pos": int(inner["pos"]),
        },
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Restore the state of all random number generators from the result of ``random_state``."""
    # Loaded with ``map_location`` they may be on any device; generators take them from the CPU.
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"]:
        here = state["cuda"][: torch.cuda.device_count()]
        torch.cuda.set_rng_state_all([rng_state.cpu() for rng_state in here])
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    numpy_state = state["numpy"]
    np.random.set_state(
        {
            "bit_generator": numpy_state["bit_generator"],
            "has_gauss": numpy_state["has_gauss"],
            "gauss": numpy_state["gauss"],
            "state": {
                "key": numpy_state["key"].cpu().numpy().astype(np.uint32),
                "pos": numpy_state["pos"],
            },
        }
    )


class Position(Sampler):
    """Sampler that records how many samples of an epoch were trained, and resumes after them.

    It wraps a sampler whose order depends only on the number of the epoch, such as
    ``DistributedSampler``::

        position = Position(DistributedSampler(data, seed=1))
        loader = DataLoader(data, batch_size=32, sampler=position)
        for epoch in range(position.epoch, epochs):
            position.begin(epoch)
            for batch in loader:
                train(batch)
                position.trained(len(batch))

    The program reports trained samples by ``trained``, because a loader's workers read samples
    before they are trained.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.epoch = 0
        self.samples = 0
        """Number of samples of the current epoch on which this rank has trained."""

    def begin(self, epoch: int) -> None:
        """Start an epoch; if a loaded state belongs to this epoch, continue after its trained
        samples.
        """
        if epoch != self.epoch:
            self.epoch, self.samples = epoch, 0
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def trained(self, samples: int) -> None:
        """Add ``samples`` to the number of trained samples. When the epoch is complete, the
        position moves to the start of the next one.
        """
        self.samples += samples
        if self.samples >= len(self._sampler):
            self.epoch, self.samples = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Return the number of the epoch and the number of samples of it on which this rank has
        trained.
        """
        return {"epoch": self.epoch, "samples": self.samples}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore the position from the result of ``state_dict``."""
        self.epoch, self.samples = state["epoch"], state["samples"]

    def __iter__(self) -> Iterator[Any]:
        for number, index in enumerate(self._sampler, -self.samples):
            if number >= 0:
                yield index

    def __len__(self) -> int:
        return len(self._sampler) - self.samples
