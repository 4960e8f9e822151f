"""Rare uses of `DistributedOptimizer`: sparse gradients, Adasum, process sets."""

from __future__ import annotations

import copy
import gc
import warnings
from typing import Any

import pytest
import torch
from runtime.tests.ranks.optimizer_work import (
    MANY_BUCKETS,
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

import aitne_train as hvd
from tests.support.ranks import Pool, Rank


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 4, sparse=True, dtype=torch.float64)
        self.head = nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(words).mean(1))


def words(step: int, rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    every = torch.randint(0, 20, (12, 5), generator=generator)
    targets = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    return every[rank::size], targets[rank::size]


def train_words(me: Rank, as_dense: bool, absent: bool) -> tuple[list[torch.Tensor], bool]:
    with started() as (rank, size):
        model = Words()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.5),
            model.named_parameters(),
            sparse_as_dense=as_dense,
        )
        sparse = True
        for step in range(4):
            optimizer.zero_grad()
            if not (absent and rank == 1):
                loss_of(model, words(step, rank, size)).backward()
            optimizer.step()
            grad = model.table.weight.grad
            sparse &= grad is not None and grad.is_sparse
        return values(model), sparse


@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients_stay_sparse(pool: Pool, as_dense: bool) -> None:
    model = Words()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(4):
        optimizer.zero_grad()
        loss_of(model, words(step, 0, 1)).backward()
        optimizer.step()
    results = pool.run(train_words, 2, as_dense, False)
    assert_alike([each[0] for each in results])
    assert_near(results[0][0], values(model))
    assert results[0][1]
    assert results[1][1]


@pytest.mark.parametrize("as_dense", [False, True])
def test_a_rank_without_a_sparse_gradient_takes_part(pool: Pool, as_dense: bool) -> None:
    results = pool.run(train_words, 2, as_dense, True)
    assert_alike([each[0] for each in results])
    assert results[1][1]


def train_adasum(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        base = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters(), op=hvd.Adasum)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        optimizer.synchronize()
        loss_of(model, share(3, rank, size)).backward()
        with pytest.raises(AssertionError, match="zero_grad"):
            optimizer.zero_grad()
        with pytest.raises(AssertionError, match="not supported"), optimizer.skip_synchronize():
            pass
        return values(model)


def adasum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the Adasum of two gradients (Maleki et al. 2021, equation 6)."""
    dot = (a * b).sum()
    return (1 - dot / (2 * a.square().sum())) * a + (1 - dot / (2 * b.square().sum())) * b


def test_adasum_combines_the_ranks_own_steps(pool: Pool) -> None:
    model = network()
    for step in range(3):
        gradients = [
            torch.autograd.grad(loss_of(model, share(step, rank, 2)), list(model.parameters()))
            for rank in range(2)
        ]
        with torch.no_grad():
            for each, one, two in zip(model.parameters(), *gradients, strict=True):
                each.add_(adasum(-0.1 * one, -0.1 * two))
    results = pool.run(train_adasum, 2)
    assert_alike(results)
    assert_near(results[0], values(model), tolerance=1e-9)


def train_part(me: Rank) -> list[torch.Tensor]:
    part = hvd.ProcessSet([0, 2])
    with started(process_sets=[part]) as (rank, size):
        model = network()
        optimizer = wrapped(model, process_set=part)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        hvd.barrier()  # a rank that leaves ends Horovod for all
        return values(model)


def test_only_members_of_the_process_set_exchange(pool: Pool) -> None:
    def expected(ranks: list[int]) -> list[torch.Tensor]:
        model = network()
        optimizer = sgd(model)
        for step in range(3):
            optimizer.zero_grad()
            for rank in ranks:
                (loss_of(model, share(step, rank, 3)) / len(ranks)).backward()
            optimizer.step()
        return values(model)

    results = pool.run(train_part, 3, environ=MANY_BUCKETS)
    assert_alike([results[0], results[2]])
    assert_near(results[0], expected([0, 2]))
    assert_near(results[1], expected([1]))


def resume(me: Rank, save: bool) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network().float()
        optimizer = wrapped(model, compression="bf16")
        for step in range(6):
            if step == 3 and save:
                kept = copy.deepcopy(
                    (
                        model.state_dict(),
                        optimizer.state_dict(),
                        optimizer.exchange_state_dict(),
                    )
                )
                model = network(7).float()
                optimizer = wrapped(model, compression="bf16")
                model.load_state_dict(kept[0])
                optimizer.load_state_dict(kept[1])
                optimizer.load_exchange_state_dict(kept[2])
            optimizer.zero_grad()
            inputs, targets = share(step, rank, size)
            loss_of(model, (inputs.float(), targets.float())).backward()
            optimizer.step()
        return values(model)


def test_a_resumed_run_goes_on_with_what_compression_had_kept(pool: Pool) -> None:
    assert_alike([pool.run(resume, 2, save)[0] for save in (False, True)])


def broadcast_state(me: Rank) -> tuple[list[torch.Tensor], float]:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        if rank == 0:
            for group in optimizer.param_groups:
                group["lr"] = 0.03
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, root_rank=1)
        states = [each["momentum_buffer"] for each in optimizer.state.values()]
        return states, optimizer.param_groups[0]["lr"]


def test_optimizer_state_can_be_broadcast(pool: Pool) -> None:
    results = pool.run(broadcast_state, 2)
    assert_alike([each[0] for each in results])
    assert [each[1] for each in results] == [0.03, 0.03]


def schedule_before(me: Rank, op: Any) -> list[float]:
    with started() as (rank, size):
        model = network()
        base = sgd(model)
        scheduler = torch.optim.lr_scheduler.StepLR(base, 1, 0.5)
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters(), op=op)
        rates = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, share(step, rank, size)).backward()
                optimizer.step()
                scheduler.step()
                rates.append(optimizer.param_groups[0]["lr"])
        return rates


@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
def test_a_scheduler_from_before_sees_that_steps_are_made(pool: Pool, op: Any) -> None:
    first, second = pool.run(schedule_before, 2, op)
    assert first == second
    assert first == pytest.approx([first[0], first[0] / 2, first[0] / 4])


def replace(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        for step in range(3):
            optimizer = wrapped(model)  # as a notebook's cell that is run again
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
            del optimizer
            gc.collect()
        hooks = [each._post_accumulate_grad_hooks for each in model.parameters()]
        assert not any(hooks), hooks
        return values(model)


def test_an_optimizer_that_is_gone_leaves_no_hook_behind(pool: Pool) -> None:
    assert_alike(pool.run(replace, 2))


def by_oneself(me: Rank) -> dict[str, Any]:
    with started():
        model = network()
        base = sgd(model)
        calls: list[str] = []
        base.register_step_pre_hook(lambda *_: calls.append("before"))
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters(), op=hvd.Adasum)
        loss_of(model, share(0, 0, 1)).backward()
        optimizer.zero_grad()
        loss_of(model, share(0, 0, 1)).backward()
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
        copied = copy.deepcopy(optimizer)
        copied.step()
        return {
            "hooks": any(each._post_accumulate_grad_hooks for each in model.parameters()),
            "class": type(optimizer).__name__,
            "is": isinstance(optimizer, torch.optim.SGD),
            "calls": calls,
            "shared": optimizer.state is base.state,
        }


def test_optimizer_of_single_rank_needs_no_hooks(pool: Pool) -> None:
    assert pool.run(by_oneself, 1) == [
        {"hooks": False, "class": "SGD", "is": True, "calls": ["before"], "shared": True}
    ]
