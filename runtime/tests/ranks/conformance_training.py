"""Training on many ranks gives the same result as one process with the whole batch."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from runtime.tests.ranks.conformance import Case, check, equal, refused
from torch import nn

ROWS = 12
"""Of the whole batch: 1, 2, 3 and 4 ranks share it alike."""


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def whole_batch() -> tuple[torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(6)
    inputs = torch.randn(ROWS, 6, generator=noise, dtype=torch.float64)
    return inputs, torch.randn(ROWS, 3, generator=noise, dtype=torch.float64)


def loss(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (model(inputs) - targets).pow(2).mean()


def alone(steps: int = 6, **options: Any) -> nn.Module:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, *whole_batch()).backward()
        optimizer.step()
    return model


def mine(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = whole_batch()
    return inputs[case.rank :: case.size], targets[case.rank :: case.size]


def optimizer_of(case: Case, model: nn.Module, **options: Any) -> Any:
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"named_parameters": model.named_parameters(), **options}
    return case.hvd.DistributedOptimizer(inner, **options)


def same(model: nn.Module, wanted: nn.Module, tolerance: float = 1e-9) -> None:
    for own, other in zip(model.parameters(), wanted.parameters(), strict=True):
        equal(own.data, other.data, tolerance)


def train(case: Case, model: nn.Module, optimizer: Any, steps: int = 6) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, *mine(case)).backward()
        optimizer.step()


@check()
def ranks_train_as_one_process(case: Case) -> None:
    hvd = case.hvd
    model = network()
    if case.rank > 0:
        nn.init.zeros_(model[0].weight)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = optimizer_of(case, model)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(case, model, optimizer)
    same(model, alone())
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    every = hvd.allgather(flat[None])
    assert bool((every == every[0]).all())


@check()
def with_each_option_of_the_optimizer(case: Case) -> None:
    hvd = case.hvd
    size = float(case.size)
    for options, factor in (
        ({"named_parameters": None}, 1.0),
        ({"op": hvd.Sum}, size),
        ({"gradient_predivide_factor": 2.0}, 1.0),
        ({"num_groups": 2}, 1.0),
        ({"groups": 3}, 1.0),
    ):
        model = network()
        optimizer = optimizer_of(case, model, **options)
        for _ in range(4):
            optimizer.zero_grad()
            (loss(model, *mine(case)) / factor).backward()
            optimizer.step()
        same(model, alone(4))


@check()
def with_sixteen_bits_on_the_way(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model, compression=case.hvd.Compression.fp16)
    train(case, model, optimizer)
    same(model, alone(), 2e-2)


@check()
def gradients_of_several_passes_are_summed_first(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model, backward_passes_per_step=2)
    inputs, targets = mine(case)
    for _ in range(3):
        optimizer.zero_grad()
        for half in range(2):
            (loss(model, inputs[half::2], targets[half::2]) / 2).backward()
        optimizer.step()
    if len(inputs) % 2 == 0:
        same(model, alone(3))


@check(ranks=2)
def a_pass_too_many_is_refused(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    loss(model, *mine(case)).backward()
    with refused(AssertionError):
        loss(model, *mine(case)).backward()
    optimizer.synchronize()


@check(ranks=2)
def gradients_can_be_changed_between_exchange_and_step(case: Case) -> None:
    model, wanted = network(), network()
    optimizer = optimizer_of(case, model)
    loss(model, *mine(case)).backward()
    optimizer.synchronize()
    loss(wanted, *whole_batch()).backward()
    for own, other in zip(model.parameters(), wanted.parameters(), strict=True):
        equal(own.grad, other.grad, 1e-9)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with optimizer.skip_synchronize():
        optimizer.step()


@check(ranks=2)
def a_second_exchange_of_the_same_gradients_warns(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    loss(model, *mine(case)).backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.step()
    # What programs silence it by.
    beginning = "optimizer.step() called without optimizer.skip_synchronize()"
    assert [str(each.message)[: len(beginning)] for each in said] == [beginning]


@check()
def parameters_tell_their_names(case: Case) -> None:
    model = network()
    named = optimizer_of(case, model)._parameter_names
    assert {name: named[each] for name, each in model.named_parameters()} == {
        name: name for name, _ in model.named_parameters()
    }
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters()}]
    numbered = case.hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))._parameter_names
    assert [numbered[each] for each in model.parameters()] == [
        f"allreduce.noname.{group}.{place}" for group in (0, 1) for place in (0, 1)
    ]


@check(ranks=2)
def clearing_gradients_too_early_is_refused(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    loss(model, *mine(case)).backward()
    with refused(AssertionError):
        optimizer.zero_grad()
    optimizer.step()


@check(ranks=2)
def parameters_that_one_rank_does_not_use(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    inputs, _ = mine(case)
    kept = model[2].weight.detach().clone()
    output = model[0](inputs) if case.rank == 0 else model(inputs)
    output.sum().backward()
    optimizer.step()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    every = case.hvd.allgather(flat[None])
    assert bool((every == every[0]).all())
    assert not torch.equal(model[2].weight, kept)


@check()
def names_must_be_unique_and_complete(case: Case) -> None:
    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    named = list(model.named_parameters())
    for wrong in (named[:1], [("same", p) for _, p in named], [p for _, p in named]):
        with refused(ValueError):
            case.hvd.DistributedOptimizer(inner, named_parameters=wrong)
    with refused(ValueError):
        case.hvd.DistributedOptimizer(inner, named_parameters=named, backward_passes_per_step=0)
    with refused(ValueError):
        optimizer_of(case, model, op=case.hvd.Sum, gradient_predivide_factor=2.0)


@check()
def the_optimizer_is_still_one_of_its_class(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    assert isinstance(optimizer, torch.optim.SGD)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(case, model, optimizer, steps=1)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    optimizer.load_state_dict(optimizer.state_dict())
    train(case, model, optimizer, steps=1)


@check()
def sparse_gradients_of_embeddings(case: Case) -> None:
    for dense in (False, True):
        torch.manual_seed(1)
        table = nn.Embedding(8, 2, sparse=True)
        inner = torch.optim.SGD(table.parameters(), lr=1.0)
        optimizer = case.hvd.DistributedOptimizer(
            inner, named_parameters=table.named_parameters(), sparse_as_dense=dense
        )
        before = table.weight.detach().clone()
        table(torch.tensor([case.rank, 7])).sum().backward()
        optimizer.step()
        wanted = torch.zeros(8, 2)
        wanted[: case.size] = 1.0 / case.size
        wanted[7] += 1.0
        equal(before - table.weight.detach(), wanted, 1e-6)


@check(ranks=2)
def a_set_of_ranks_trains_by_itself(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model, process_set=case.sets["first"])
    if case.rank == 0:
        for _ in range(3):
            optimizer.zero_grad()
            loss(model, *whole_batch()).backward()
            optimizer.step()
        same(model, alone(3))


@check()
def adasum_trains(case: Case) -> None:
    if case.oracle and case.size & (case.size - 1):
        return
    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = case.hvd.DistributedOptimizer(
        inner, named_parameters=model.named_parameters(), op=case.hvd.Adasum
    )
    before = loss(model, *whole_batch()).item()
    train(case, model, optimizer, steps=40)
    assert loss(model, *whole_batch()).item() < 0.8 * before
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    every = case.hvd.allgather(flat[None])
    assert torch.allclose(every, every[:1].expand_as(every), atol=1e-9)


@check(ranks=2)
def ranks_with_fewer_batches_join(case: Case) -> None:
    model = network()
    optimizer = optimizer_of(case, model)
    train(case, model, optimizer, steps=2 + case.rank)
    assert case.hvd.join() == case.size - 1
    again = network()
    train(case, again, optimizer_of(case, again), steps=1)
    same(again, alone(1))
