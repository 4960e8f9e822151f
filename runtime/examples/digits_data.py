"""scikit-learn's handwritten digits as LeNet-5 wants them: no download."""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.data import TensorDataset


def load(test_share: float = 0.25, seed: int = 0) -> tuple[TensorDataset, TensorDataset]:
    """1,797 digits of 8 x 8, enlarged to (1, 32, 32) and scaled to -0.1 .. 1.175, and their labels.

    Shuffled the same way at every rank; the first part to learn from, the second to test on.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = functional.interpolate(images, size=(28, 28), mode="bilinear", align_corners=False)
    # The range of the paper, which makes the mean of the pixels about 0, and its border of two.
    images = functional.pad(images * 1.275 - 0.1, (2, 2, 2, 2), value=-0.1)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    images, labels = images[order], labels[order]
    split = int(len(images) * (1 - test_share))
    train = TensorDataset(images[:split], labels[:split])
    return train, TensorDataset(images[split:], labels[split:])
