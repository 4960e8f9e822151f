"""The class of a distributed optimizer, which libraries inspect and subclass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from runtime.tests.ranks.optimizer_work import (
    alone,
    assert_alike,
    assert_near,
    loss_of,
    network,
    sgd,
    share,
    started,
    values,
    wrapped,
)
from torch import nn
from torch.distributed.tensor import DTensor, Replicate

import aitne_train as hvd
from aitne_train.optimizer import _DistributedOptimizer
from tests.support.ranks import Pool, Rank


class Counting(_DistributedOptimizer, torch.optim.SGD):
    """A subclass as libraries derive it from Horovod's class, with further work in each step."""

    steps = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        self.steps += 1
        return super().step(closure)


def derived(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        base = sgd(model)
        optimizer = Counting(base.param_groups, model.named_parameters(), hvd.Compression.none)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        assert optimizer.steps == 3
        return values(model)


def test_a_subclass_exchanges_gradients_too(pool: Pool) -> None:
    found = pool.run(derived, 2)
    assert_alike(found)
    assert_near(found[0], alone(3))


def looked_at(me: Rank) -> None:
    with started():
        model = network()
        optimizer = wrapped(model)
        assert "horovod" in str(optimizer.__class__)
        assert type(optimizer).__name__ == "SGD"
        assert isinstance(optimizer, _DistributedOptimizer)
        assert isinstance(optimizer, torch.optim.SGD)
        with pytest.raises(ValueError, match="is a DistributedOptimizer already"):
            hvd.DistributedOptimizer(optimizer, model.named_parameters())


def test_wrapped_optimizer_is_not_wrapped_twice(pool: Pool) -> None:
    pool.run(looked_at, 1)


def sharded(me: Rank) -> None:
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        weight = DTensor.from_local(torch.ones(2), mesh, [Replicate()])
        optimizer = torch.optim.SGD([nn.Parameter(weight)], lr=0.1)
        with started(), pytest.raises(ValueError, match="fully_shard"):
            hvd.DistributedOptimizer(optimizer)
    finally:
        dist.destroy_process_group()


def test_parameters_that_torch_has_sharded_are_refused(pool: Pool) -> None:
    pool.run(sharded, 1)
