"""The recipe of "ImageNet in 1 hour" (Goyal et al. 2017), on digits: a larger batch, a larger rate, a warm-up.

Three runs of as many epochs: a batch of 16 on each rank, with the rate for so many; a batch of 16 times 16
at the rate of one rank, which learns too little; and the same large batch with sixteen times that rate
after a warm-up. The large batch is gathered by all ranks, each of which adds up several passes for one step.

    aitne-run -np 2 python one_hour_digits.py
"""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import argparse

import torch
from digits_data import load
from torch import nn
from torch.nn import functional

import aitne_train as hvd
from aitne_train.large_batches import GradualWarmUp, linear_scaling

BATCH = 16
"""Examples of one pass."""


def network() -> nn.Module:
    """Return a small perceptron, the same at every rank."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(32 * 32, 64), nn.ReLU(), nn.Linear(64, 10))


def train(passes: int, rate: float, factor: float, epochs: int, warm_up_epochs: int) -> float:
    """Train with ``BATCH * passes * size`` examples per step; the accuracy on what was not learned from.

    The rate grows from ``rate / factor`` to ``rate`` in the first ``warm_up_epochs``.
    """
    learned, test = load()
    images, labels = learned.tensors
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=passes
    )
    batch = BATCH * passes * hvd.size()
    steps = len(images) // batch
    schedule = GradualWarmUp(optimizer, factor, warm_up_epochs * steps)
    order = torch.Generator().manual_seed(2)
    for _ in range(epochs):
        shuffled = torch.randperm(len(images), generator=order)[: steps * batch]
        for chosen in shuffled.view(steps, hvd.size(), passes, BATCH)[:, hvd.rank()]:
            optimizer.zero_grad()
            for part in chosen:
                loss = functional.cross_entropy(model(images[part]), labels[part])
                (loss / passes).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return (model(test.tensors[0]).argmax(1) == test.tensors[1]).float().mean().item()


def main() -> None:
    """Read the options, train three times, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=16, help="how many times the batch")
    parser.add_argument("--rate", type=float, default=0.005, help="that of one batch")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=2, help="epochs")
    options = parser.parse_args()
    hvd.init()
    if options.times % hvd.size():
        parser.error(f"--times must be a multiple of the {hvd.size()} ranks")
    passes = options.times // hvd.size()
    scaled = linear_scaling(options.rate, options.times * BATCH, BATCH)
    runs = {
        f"batch {BATCH * hvd.size()}": (1, linear_scaling(options.rate, hvd.size(), 1), 1.0),
        f"batch {BATCH * options.times}, one rank's rate": (passes, options.rate, 1.0),
        f"batch {BATCH * options.times}, the rate scaled": (passes, scaled, options.times),
    }
    for name, (each, rate, factor) in runs.items():
        accuracy = train(each, rate, factor, options.epochs, options.warm_up)
        if hvd.rank() == 0:
            print(f"{name:27} learning rate {rate:<6.4g} test accuracy {accuracy:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
