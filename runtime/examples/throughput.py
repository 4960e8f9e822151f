"""Train ResNet-50 or EDSR on generated data of the real shapes, and print images per second.

    aitne-run -np 2 python throughput.py resnet50 --batch 4 --steps 5
    aitne-run -np 2 python throughput.py edsr --batch 4 --steps 5

ResNet-50 sees 3 x 224 x 224 and 1,000 classes (ImageNet's), EDSR patches of 3 x 48 x 48 that it
enlarges four times (DIV2K's, as in its paper). Data are random: no accuracy comes out of this.
"""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from models import EDSR, ResNet50
from torch import nn
from torch.nn import functional

import aitne_train as hvd

Batch = tuple[torch.Tensor, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def resnet50(batch: int) -> tuple[nn.Module, Loss, Batch]:
    """Return the network, its loss, and one batch."""
    data = torch.rand(batch, 3, 224, 224), torch.randint(1000, (batch,))
    return ResNet50(), functional.cross_entropy, data


def edsr(batch: int) -> tuple[nn.Module, Loss, Batch]:
    """Return the paper's baseline, its loss (L1), and one batch."""
    data = torch.rand(batch, 3, 48, 48), torch.rand(batch, 3, 192, 192)
    return EDSR(), functional.l1_loss, data


WORKLOADS = {"resnet50": resnet50, "edsr": edsr}


def main() -> None:
    """Read the options, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--batch", type=int, default=8, help="images per rank and step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=2, help="steps before the clock starts")
    parser.add_argument("--fp16", action="store_true", help="exchange gradients in 16 bits")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(hvd.rank())
    device = torch.device("cpu")
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
        device = torch.device("cuda")
    model, loss_of, (inputs, wanted) = WORKLOADS[options.workload](options.batch)
    model, inputs, wanted = model.to(device), inputs.to(device), wanted.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16 else hvd.Compression.none,
    )

    began = time.perf_counter()
    for step in range(options.warm_up + options.steps):
        if step == options.warm_up:
            hvd.barrier()
            began = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(inputs), wanted).backward()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    if hvd.rank() == 0:
        images = options.batch * options.steps * hvd.size()
        print(f"{options.workload}: {images / seconds:.2f} images/s on {hvd.size()} ranks")
    hvd.shutdown()


if __name__ == "__main__":
    main()
