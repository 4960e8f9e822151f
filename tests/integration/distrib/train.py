"""A small training that can be ended at any step and goes on from there: the tests' program."""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import sys
import time

import torch
from torch import nn

import aitne_train as hvd
from aitne_train.checkpoint import Checkpointer
from aitne_train.preemption import Preemption

STEPS = 60


def main(pause_s: float) -> None:
    """Train ``STEPS`` steps with a pause in each; print each step and the last loss, in full."""
    hvd.init()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    plain = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoints, told = Checkpointer(), Preemption()
    first = 0
    if (found := checkpoints.load_latest()) is not None:
        model.load_state_dict(found.state["model"])
        plain.load_state_dict(found.state["optimizer"])
        first = found.step + 1
        if hvd.rank() == 0:
            print(f"resumed at {first}", flush=True)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    for step in range(first, STEPS):
        random = torch.Generator().manual_seed(step * hvd.size() + hvd.rank())
        batch = torch.randn(32, 8, generator=random)
        optimizer.zero_grad()
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        checkpoints.save(state, step)
        if hvd.rank() == 0:
            print(f"step {step}", flush=True)
        if told.after_step():
            told.leave()
        time.sleep(pause_s)
    mean = hvd.allreduce(loss.detach(), name="loss")
    if hvd.rank() == 0:
        print(f"loss {mean.item():.9f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main(float(sys.argv[1]))
