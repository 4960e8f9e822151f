"""Train LeNet-5 on digits on as many ranks as there are, in Horovod's manner.

It would run with ``import horovod.torch as hvd`` unchanged. ``lenet5_ddp.py`` does the same in
PyTorch's own manner.

    aitne-run -np 2 python lenet5_horovod.py
"""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import argparse

import torch
from digits_data import load
from models import LeNet5
from torch.nn import functional
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import aitne_train as hvd


def main() -> None:
    """Read the options, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(0)
    train, test = load()
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(train, batch_size=options.batch, sampler=sampler)
    model = LeNet5()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)

    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = hvd.allreduce(loss.detach(), name="loss")
        if hvd.rank() == 0:
            print(f"epoch {epoch:3}: loss {mean.item():.4f}", flush=True)

    images, labels = test.tensors
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    if hvd.rank() == 0:
        print(f"test accuracy {right:.4f} on {hvd.size()} ranks", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
