"""A small training that goes on until the file ``enough`` lies beside it: the walk's program."""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import aitne_train as hvd

STEPS_A_ROUND = 20
ENOUGH = Path(__file__).with_name("enough")


def points(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of a plane, and for each whether it lies above the diagonal."""
    drawn = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return drawn, (drawn.sum(1) > 0).long()


def main() -> None:
    """Train in rounds; rank 0 alone looks for the file, and all end after the same round."""
    hvd.init()
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
    )
    batch, labels = points(64, seed=1 + hvd.rank())
    rounds = 0
    while not hvd.broadcast_object(hvd.rank() == 0 and ENOUGH.exists(), root_rank=0):
        for _ in range(STEPS_A_ROUND):
            optimizer.zero_grad()
            functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
        rounds += 1
    with torch.no_grad():
        unseen, truth = points(1_000, seed=0)
        right = (model(unseen).argmax(1) == truth).float().mean().item()
    if hvd.rank() == 0:
        print(f"test accuracy {right:.3f} on {hvd.size()} ranks after {rounds} rounds", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
