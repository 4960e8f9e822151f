"""Functions that ranks run in the tests of `DistributedOptimizer`: a small network and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

import aitne_train as hvd

BATCH = 12
"""Examples per step over all ranks: of 1, 2 or 3 ranks each has as many."""
MANY_BUCKETS = {"HOROVOD_FUSION_THRESHOLD": "700"}


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)
    ).double()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + step)
    inputs = torch.randn(BATCH, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.randn(BATCH, 3, generator=generator, dtype=torch.float64)


def share(step: int, rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = batch(step)
    return inputs[rank::size], targets[rank::size]


def loss_of(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.mse_loss(model(data[0]), data[1])


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def values(model: nn.Module) -> list[torch.Tensor]:
    return [each.detach().clone() for each in model.parameters()]


def alone(
    steps: int, optimizer_of: Callable[[nn.Module], torch.optim.Optimizer] = sgd
) -> list[torch.Tensor]:
    """Return the parameters after training on the whole batch in one process."""
    model = network()
    optimizer = optimizer_of(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch(step)).backward()
        optimizer.step()
    return values(model)


@contextmanager
def started(**arguments: Any) -> Iterator[tuple[int, int]]:
    """Initialize Horovod during the block; yield rank and size."""
    hvd.init(**arguments)
    try:
        yield hvd.rank(), hvd.size()
    finally:
        hvd.shutdown()


def wrapped(model: nn.Module, **arguments: Any) -> Any:
    return hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **arguments)


def assert_alike(results: list[list[torch.Tensor]]) -> None:
    """Assert that all ranks have the same tensors, bit for bit."""
    for other in results[1:]:
        assert len(other) == len(results[0])
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def assert_near(
    found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float = 1e-12
) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
