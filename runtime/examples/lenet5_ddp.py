"""Train LeNet-5 on digits on as many ranks as there are, in PyTorch's own manner.

``lenet5_horovod.py`` does the same in Horovod's manner.

    aitne-run -np 2 python lenet5_ddp.py
"""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from digits_data import load
from models import LeNet5
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    """Read the options, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    train, test = load()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=options.batch, sampler=sampler)
    model = DistributedDataParallel(LeNet5())
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)

    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch:3}: loss {mean.item():.4f}", flush=True)

    images, labels = test.tensors
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    if dist.get_rank() == 0:
        print(f"test accuracy {right:.4f} on {dist.get_world_size()} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
