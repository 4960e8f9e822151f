"""Elastic training: commits, restored states and the distribution of samples."""

from __future__ import annotations

import random
from typing import Any

import torch
from runtime.tests.ranks.conformance import Case, check, equal, refused
from torch import nn


def parts(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


@check()
def a_state_goes_back_to_its_commit(case: Case) -> None:
    model, optimizer = parts(0)
    state = case.hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)
    assert (state.model, state.optimizer, state.epoch) == (model, optimizer, 0)
    step(model, optimizer)
    state.epoch = 3
    state.commit()
    kept = [p.detach().clone() for p in model.parameters()]
    momentum = [optimizer.state[p]["momentum_buffer"].clone() for p in model.parameters()]
    # The real one goes on training its copy of the optimizer's state, and can go back to it only once.
    for _ in range(1 if case.oracle else 2):
        step(model, optimizer)
        state.epoch = 9
        state.restore()
        assert (state.epoch, state.batch) == (3, 0)
        for own, wanted, buffer in zip(model.parameters(), kept, momentum, strict=True):
            equal(own.data, wanted)
            equal(optimizer.state[own]["momentum_buffer"], buffer)


@check(ranks=2)
def a_state_is_made_that_of_rank_0(case: Case) -> None:
    model, optimizer = parts(case.rank)
    step(model, optimizer)
    optimizer.param_groups[0]["lr"] = 0.1 * (1 + case.rank)
    state = case.hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=case.rank)
    state.sync()
    wanted, root = parts(0)
    step(wanted, root)
    assert state.epoch == 0
    assert optimizer.param_groups[0]["lr"] == 0.1
    for own, other in zip(model.parameters(), wanted.parameters(), strict=True):
        equal(own.data, other.data)
        equal(optimizer.state[own]["momentum_buffer"], root.state[other]["momentum_buffer"])


@check()
def a_new_model_takes_the_old_ones_place(case: Case) -> None:
    model, _ = parts(0)
    state = case.hvd.elastic.TorchState(model=model)
    other, _ = parts(1)
    state.model = other
    assert state.model is other
    kept = [p.detach().clone() for p in other.parameters()]
    nn.init.zeros_(other.weight)
    state.restore()
    for own, wanted in zip(other.parameters(), kept, strict=True):
        equal(own.data, wanted)


@check(oracle_cannot="keeps the very object, so what changes in place cannot be undone")
def values_that_change_in_place_go_back_too(case: Case) -> None:
    state = case.hvd.elastic.TorchState(history=[1])
    state.history.append(2)
    state.commit()
    state.history.append(3)
    state.restore()
    assert state.history == [1, 2]


@check()
def a_sampler_deals_everything_once(case: Case) -> None:
    dataset = list(range(100, 121))
    for shuffle in (False, True):
        sampler = case.hvd.elastic.ElasticSampler(dataset, shuffle=shuffle, seed=4)
        own = list(sampler)
        assert len(own) == len(sampler) == -(-21 // case.size)
        every = [index for part in case.hvd.allgather_object(own) for index in part]
        assert set(every) == set(range(21))
        order = list(range(21))
        if shuffle:
            random.Random(4).shuffle(order)
        assert own[:3] == order[case.rank :: case.size][:3]
        sampler.set_epoch(1)
        assert (list(sampler) != own) == shuffle
        sampler.set_epoch(0)
        assert list(sampler) == own


@check()
def a_sampler_leaves_out_what_was_done(case: Case) -> None:
    sampler = case.hvd.elastic.ElasticSampler(list(range(24)), shuffle=True)
    first = list(sampler)
    sampler.record_batch(0, 2)
    sampler.record_batch(1, 1)
    kept = sampler.state_dict()
    assert kept == {"epoch": 0, "processed_num": 3 * case.size}
    assert list(sampler) == first
    sampler.load_state_dict(kept)
    assert list(sampler) == first[3:]
    state = case.hvd.elastic.TorchState(sampler=sampler)
    sampler.record_batch(2, 1)
    state.restore()
    assert sampler.processed_num == 3 * case.size
    state.sync()
    assert list(sampler) == first[3:]


@check()
def a_function_runs_on_a_synchronized_state(case: Case) -> None:
    hvd = case.hvd
    state = hvd.elastic.TorchState(epoch=0)
    seen: list[Any] = []

    @hvd.elastic.run
    def train(state: Any, until: int) -> str:
        while state.epoch < until:
            seen.append(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
            state.epoch += 1
            state.commit()
        return "done"

    assert train(state, until=3) == "done"
    assert seen == [float(case.size)] * 3
    assert train.__name__ == "train"


@check(oracle_cannot="cannot be initialized again under MPI")
def a_failed_collective_goes_back_to_the_last_commit(case: Case) -> None:
    hvd = case.hvd
    state = hvd.elastic.TorchState(step=0)
    resets: list[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    failures: list[int] = []

    @hvd.elastic.run
    def train(state: Any) -> float:
        total = 0.0
        while state.step < 4:
            state.step += 1
            if state.step == 3 and len(failures) < 2:
                failures.append(state.step)
                raise hvd.HorovodInternalError("something went wrong")
            total += hvd.allreduce(torch.full((1,), float(state.step)), op=hvd.Sum).item()
            if state.step == 2:
                state.commit()
        return total

    assert train(state) == (3.0 + 4.0) * case.size
    assert failures == [3, 3]
    assert resets == [case.size] * 2


@check(oracle_cannot="tries again for ever")
def a_failure_that_comes_again_and_again_is_raised(case: Case) -> None:
    hvd = case.hvd

    @hvd.elastic.run
    def train(state: Any) -> None:
        raise hvd.HorovodInternalError("always")

    with refused(hvd.HorovodInternalError, says="always"):
        train(hvd.elastic.TorchState(step=0))


@check(oracle_cannot="cannot be initialized again under MPI")
def other_nodes_make_all_ranks_turn_back_at_a_commit(case: Case) -> None:
    hvd = case.hvd
    from aitne_train.elastic import HostUpdateResult, notification_manager

    state = hvd.elastic.TorchState(step=0)
    resets: list[int] = []
    state.register_reset_callbacks([lambda: resets.append(state.step)])

    @hvd.elastic.run
    def train(state: Any) -> int:
        while state.step < 3:
            state.step += 1
            if state.step == 2 and case.rank == 0 and not resets:
                notification_manager.handle_hosts_updated(1.0, HostUpdateResult.added)
            state.commit()
        return state.step

    assert train(state) == 3
    assert resets == [2]


@check(oracle_cannot="cannot be initialized again under MPI")
def initialized_again(case: Case) -> None:
    hvd = case.hvd
    hvd.shutdown()
    assert not hvd.is_initialized()
    with refused(ValueError, says="not been initialized"):
        hvd.rank()
    with refused(hvd.HorovodInternalError, says="not been initialized"):
        hvd.allreduce(torch.ones(1))
    hvd.shutdown()
    hvd.init()
    assert (hvd.rank(), hvd.size()) == (case.rank, case.size)
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), [float(case.size)])
