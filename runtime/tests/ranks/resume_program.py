"""Trains a small network with dropout, saves every third step, and goes on from what it finds.

    resume_program.py LAST [die RANK STEP | signal RANK STEP]

Rank 0 prints the loss of every step.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch

import aitne_train as hvd
from aitne_train.checkpoint import Checkpointer
from aitne_train.preemption import Preemption
from aitne_train.resume import Position, random_state, restore_random_state


def main(last: int, what: str, victim: int, at: int) -> None:
    torch.use_deterministic_algorithms(True)
    hvd.init()
    stop = Preemption()
    checkpoints = Checkpointer()
    torch.manual_seed(hvd.rank())
    generator = torch.Generator().manual_seed(7)
    x, y = torch.randn(96, 6, generator=generator), torch.randint(0, 3, (96,), generator=generator)
    data: Any = torch.utils.data.TensorDataset(x, y)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 3)
    )
    plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.utils.data.DistributedSampler(data, hvd.size(), hvd.rank(), seed=1)
    position = Position(order)
    loader = torch.utils.data.DataLoader(
        data, batch_size=8, sampler=position, generator=torch.Generator()
    )
    step = 0
    found = checkpoints.load_latest()
    if found is None:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    else:
        step = found.step
        model.load_state_dict(found.state["model"])
        plain.load_state_dict(found.state["optimizer"])
        position.load_state_dict(found.own["position"])
        restore_random_state(found.own["random"])
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())

    def save() -> None:
        checkpoints.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
            step,
            own={"position": position.state_dict(), "random": random_state()},
        )

    while step < last:
        position.begin(position.epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            step += 1
            position.trained(len(inputs))
            whole = hvd.allreduce(loss.detach(), name="loss")
            if hvd.rank() == 0:
                print(f"{step} {float(whole)!r}", flush=True)  # noqa: T201
            if hvd.rank() == victim and step == at:
                os.kill(os.getpid(), signal.SIGKILL if what == "die" else signal.SIGTERM)
            if stop.after_step():
                save()
                stop.leave()
            if step % 3 == 0:
                save()
            if step == last:
                break
    hvd.shutdown()


if __name__ == "__main__":
    words = sys.argv[1:]
    what, victim, at = (words[1], int(words[2]), int(words[3])) if words[1:] else ("", -1, -1)
    main(int(words[0]), what, victim, at)
