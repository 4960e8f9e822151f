"""A rank of ``train_step`` that runs steps on request and reports their cost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Client
from typing import Any

import torch
from runtime.benchmarks.train_step import SOCKET
from torch import nn

Step = Callable[[], None]


class NullRecorder:
    """A recorder that keeps no records."""

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Ignore the record of an operation."""

    def step(self) -> None:
        """Ignore the end of a step."""


class Sized(nn.Module):
    """Parameters of the shapes of ResNet-18 (He et al. 2016), and hardly any computation."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(shape) * 0.01 for shape in resnet18())
        self.register_buffer("noise", torch.randn(max(each.numel() for each in self.parts)))

    def forward(self) -> torch.Tensor:
        """Return a sum whose gradients are as large as the parameters and written once."""
        return torch.stack(
            [torch.dot(each.view(-1), self.noise[: each.numel()]) for each in self.parts]
        ).sum()


def resnet18() -> list[tuple[int, ...]]:
    """Return the shapes of ResNet-18's 62 parameters with 11,689,512 numbers."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            entering = before if block == 0 else width
            shapes += [(width, entering, 3, 3), (width,), (width,)]
            shapes += [(width, width, 3, 3), (width,), (width,)]
            if block == 0 and entering != width:
                shapes += [(width, entering, 1, 1), (width,), (width,)]
        before = width
    return [*shapes, (1000, 512), (1000,)]


def network(name: str, device: str) -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    """Return a model, and a function that computes its loss."""
    torch.manual_seed(0)
    if name == "gradients":
        return Sized().to(device), lambda model: model()
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    ).to(device)
    inputs = torch.randn(32, 64, device=device)
    targets = torch.randint(0, 10, (32,), device=device)
    return model, lambda model: nn.functional.cross_entropy(model(inputs), targets)


def way(name: str, model_name: str, device: str) -> Step:
    """Return a function that performs one training step in the way of that name."""
    model, loss_of = network(model_name, device)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=1e-6)
    trained: nn.Module = model
    if name in ("ddp", "ddp as view"):
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("gloo" if device == "cpu" else "nccl")
        trained = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=name == "ddp as view"
        )
    elif name == "horovod":
        import horovod.torch as horovod

        horovod.init()
        optimizer = horovod.DistributedOptimizer(optimizer, model.named_parameters())
    elif name in ("ours", "unwatched"):
        import aitne_train as hvd
        from aitne_train import context

        hvd.init()
        if name == "unwatched":
            context.require_context().recorder = NullRecorder()
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss_of(trained).backward()
        optimizer.step()

    return step


def main() -> None:
    """Run the steps that the benchmark asks for.

    ``python -m runtime.benchmarks.train_step_rank MODEL DEVICE WAY[,WAY]``
    """
    model_name, device, ways = sys.argv[1:]
    torch.set_num_threads(1)
    with Client(os.environ[SOCKET], "AF_UNIX") as connection:
        connection.send(os.getpid())
        steps = {name: way(name, model_name, device) for name in ways.split(",")}
        while True:
            try:
                name, count = connection.recv()
            except EOFError:
                return
            step = steps[name]
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(count):
                step()
            if device == "cuda":
                torch.cuda.synchronize()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            connection.send((wall / count, cpu / count))


if __name__ == "__main__":
    main()
