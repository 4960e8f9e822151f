"""Training with ``DistributedOptimizer`` is training on all ranks' examples at once."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from runtime.tests.ranks.optimizer_work import (
    MANY_BUCKETS,
    alone,
    assert_alike,
    assert_near,
    batch,
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


def train(me: Rank, steps: int, arguments: dict[str, Any], keep: bool) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network(seed=rank)
        optimizer = wrapped(model, **arguments)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        for step in range(steps):
            optimizer.zero_grad(set_to_none=not keep)
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        return values(model)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "environ",
    [
        {},
        MANY_BUCKETS,
        {"HOROVOD_FUSION_THRESHOLD": "0"},
        {"AITNE_TRANSPORT": "torch_pg", **MANY_BUCKETS},
    ],
    ids=["default", "buckets", "no fusion", "gloo"],
)
def test_distributed_training_equals_training_on_whole_batch(
    pool: Pool, size: int, environ: dict[str, str]
) -> None:
    results = pool.run(train, size, 5, {}, False, environ=environ)
    assert_alike(results)
    assert_near(results[0], alone(5))


@pytest.mark.parametrize(
    "arguments",
    [
        {"gradient_predivide_factor": 4.0},
        {"groups": 2},
        {"num_groups": 3},
        {"op": hvd.Average, "sparse_as_dense": True},
    ],
    ids=str,
)
def test_arguments_that_change_only_how_gradients_travel(
    pool: Pool, arguments: dict[str, Any]
) -> None:
    results = pool.run(train, 2, 3, arguments, False, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], alone(3))


def test_gradients_that_are_zeroed_in_place_are_exchanged_as_well(pool: Pool) -> None:
    results = pool.run(train, 2, 4, {}, True, environ=MANY_BUCKETS)
    assert_near(results[0], alone(4))


@pytest.mark.parametrize(
    "compression", ["fp16", "bf16", hvd.Compression.fp16, hvd.Compression.bf16]
)
def test_compressed_gradients_train_nearly_the_same(pool: Pool, compression: Any) -> None:
    results = pool.run(train, 2, 3, {"compression": compression}, False, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], alone(3), tolerance=0.02)


class Halved:
    """A program's own compression."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor.float(), (tensor.dtype, tensor.dim())

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        assert tensor.dim() == ctx[1]
        return tensor.to(ctx[0])


def test_a_programs_own_compression_sees_each_gradient_in_its_shape(pool: Pool) -> None:
    results = pool.run(train, 2, 3, {"compression": Halved}, False)
    assert_alike(results)
    assert_near(results[0], alone(3), tolerance=1e-6)


def train_sum(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), op=hvd.Sum
        )
        for step in range(2):
            optimizer.zero_grad()
            (loss_of(model, share(step, rank, size)) / size).backward()
            optimizer.step()
        return values(model)


def test_a_sum_is_not_divided(pool: Pool) -> None:
    expected = alone(2, lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    assert_near(pool.run(train_sum, 2)[1], expected)


def accumulate(me: Rank, passes: int) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model, backward_passes_per_step=passes)
        for step in range(3):
            optimizer.zero_grad()
            inputs, targets = share(step, rank, size)
            for part in range(passes):
                some = inputs[part::passes], targets[part::passes]
                (loss_of(model, some) / passes).backward()
            optimizer.step()
        optimizer.set_backward_passes_per_step(1)
        optimizer.zero_grad()
        loss_of(model, share(3, rank, size)).backward()
        optimizer.step()
        return values(model)


def test_accumulated_passes_are_exchanged_once(pool: Pool) -> None:
    results = pool.run(accumulate, 2, 3, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], alone(4))


def clip(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = network()
        optimizer = wrapped(model)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            with optimizer.skip_synchronize():
                optimizer.step()
        return values(model)


def test_gradients_can_be_clipped_between_exchange_and_step(pool: Pool) -> None:
    model = network()
    optimizer = sgd(model)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, batch(step)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
    results = pool.run(clip, 2, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], values(model))


def scale(me: Rank, steps: int) -> tuple[list[torch.Tensor], float, list[float]]:
    with started() as (rank, size):
        model = network().float()
        optimizer = wrapped(model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        rates = []
        for step in range(steps):
            optimizer.zero_grad()
            inputs, targets = share(step, rank, size)
            loss = loss_of(model, (inputs.float(), 30 * targets.float()))
            scaler.scale(loss).backward()
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return values(model), scaler.get_scale(), rates


def test_a_loss_scale_and_a_schedule_go_with_it(pool: Pool) -> None:
    results = pool.run(scale, 2, 6)
    assert_alike([each[0] for each in results])
    assert results[0][1] == results[1][1] < 2.0**127  # too large a scale was noticed by all
    assert results[0][2] == pytest.approx([0.1, 0.05, 0.05, 0.025, 0.025, 0.0125])
    assert all(each.isfinite().all() for each in results[0][0])


def close(me: Rank, kind: str) -> tuple[list[torch.Tensor], float]:
    with started() as (rank, size):
        model = network()
        base = (
            sgd(model)
            if kind == "sgd"
            else torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        )
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters())
        loss = torch.zeros(())
        for step in range(3):

            def closure(step: int = step) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, share(step, rank, size))
                loss.backward()
                return loss

            loss = optimizer.step(closure)
        return values(model), float(loss)


def test_a_closures_gradients_are_those_of_all_ranks(pool: Pool) -> None:
    results = pool.run(close, 2, "sgd", environ=MANY_BUCKETS)
    assert_alike([each[0] for each in results])
    assert_near(results[0][0], alone(3))
    assert results[0][1] > 0


def test_an_optimizer_that_calls_its_closure_again_exchanges_each_time(pool: Pool) -> None:
    assert_alike([each[0] for each in pool.run(close, 2, "lbfgs")])


def join_unevenly(me: Rank) -> tuple[list[torch.Tensor], int]:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        for step in range(2 + 3 * rank):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        return values(model), last


@pytest.mark.parametrize("environ", [{}, MANY_BUCKETS])
def test_ranks_that_run_out_of_data_take_part_with_zeros(
    pool: Pool, environ: dict[str, str]
) -> None:
    model = network()
    optimizer = sgd(model)
    for step in range(5):
        optimizer.zero_grad()
        (loss_of(model, share(step, 1, 2)) / 2).backward()
        if step < 2:
            (loss_of(model, share(step, 0, 2)) / 2).backward()
        optimizer.step()
    results = pool.run(join_unevenly, 2, environ=environ)
    assert [last for _, last in results] == [1, 1]
    assert_alike([each[0] for each in results])
    assert_near(results[1][0], values(model))


def join_before_a_step(
    me: Rank, arguments: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model, **arguments)

        def train(step: int) -> None:
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()

        for step in range(3 * rank):
            train(step)
        last = hvd.join()
        unequal = values(model)
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        hvd.broadcast_optimizer_state(optimizer, root_rank=last)
        for step in range(3, 5):
            train(step)
        return unequal, values(model)


@pytest.mark.parametrize("arguments", [{}, {"gradient_predivide_factor": 2.0}])
@pytest.mark.parametrize("environ", [{"AITNE_TRANSPORT": "shm"}, {"AITNE_TRANSPORT": "torch_pg"}])
def test_a_rank_that_has_no_data_at_all_takes_part_with_zeros(
    pool: Pool, environ: dict[str, str], arguments: dict[str, Any]
) -> None:
    model = network()
    optimizer = sgd(model)
    expected = []
    for step in range(5):
        optimizer.zero_grad()
        (loss_of(model, share(step, 1, 2)) / 2).backward()
        if step >= 3:
            (loss_of(model, share(step, 0, 2)) / 2).backward()
        optimizer.step()
        expected.append(values(model))
    results = pool.run(join_before_a_step, 2, arguments, environ=environ)
    assert_near(results[1][0], expected[2])
    assert_alike([each[1] for each in results])
    assert_near(results[0][1], expected[4])


def freeze(me: Rank) -> tuple[list[torch.Tensor], list[bool]]:
    with started() as (rank, size):
        model = network()
        model[0].weight.requires_grad_(False)
        optimizer = wrapped(model)
        moved = []
        for step in range(6):
            if step == 2:
                model[0].weight.requires_grad_(True)
            if step == 4:
                model[2].requires_grad_(False)
            before = [model[0].weight.clone(), model[2].weight.clone()]
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
            after = [model[0].weight, model[2].weight]
            moved += [not torch.equal(a, b) for a, b in zip(before, after, strict=True)]
        return values(model), moved


def test_parameters_can_be_frozen_and_unfrozen(pool: Pool) -> None:
    model = network()
    model[0].weight.requires_grad_(False)
    optimizer = sgd(model)
    for step in range(6):
        if step == 2:
            model[0].weight.requires_grad_(True)
        if step == 4:
            model[2].requires_grad_(False)
        optimizer.zero_grad()
        loss_of(model, batch(step)).backward()
        optimizer.step()
    results = pool.run(freeze, 2, environ=MANY_BUCKETS)
    assert_alike([each[0] for each in results])
    assert_near(results[0][0], values(model))
    assert results[0][1] == [False, True] * 2 + [True, True] * 2 + [True, False] * 2


def take_turns(me: Rank) -> tuple[list[torch.Tensor], list[bool]]:
    with started() as (rank, _):
        model = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = wrapped(model)
        has = []
        for step in range(4):
            optimizer.zero_grad()
            # Each rank uses another layer, and no rank the last one.
            model[(rank + step) % 2](torch.ones(2, 4)).sum().backward()
            optimizer.step()
            has.append(all(each.grad is not None for each in model.parameters()))
        return values(model), has


def test_a_gradient_that_a_rank_has_not_counts_as_zeros(pool: Pool) -> None:
    results = pool.run(take_turns, 2, environ=MANY_BUCKETS)
    assert_alike([each[0] for each in results])
    assert results[0][1] == [True] * 4


def two_optimizers(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        one, two = network(1), network(2)
        # Neither is given names: both have the same ones.
        first, second = (hvd.DistributedOptimizer(sgd(each)) for each in (one, two))
        for step in range(3):
            for model, optimizer in ((one, first), (two, second)):
                optimizer.zero_grad()
                loss_of(model, share(step, rank, size)).backward()
                optimizer.step()
        return values(one) + values(two)


def test_several_optimizers_do_not_disturb_each_other(pool: Pool) -> None:
    expected = []
    for seed in (1, 2):
        model = network(seed)
        optimizer = sgd(model)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, batch(step)).backward()
            optimizer.step()
        expected += values(model)
    results = pool.run(two_optimizers, 2, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], expected)


def add_later(me: Rank) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        first, rest = model[0], model[1:]
        optimizer = hvd.DistributedOptimizer(sgd(rest))
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": list(first.parameters())})
            optimizer.zero_grad()
            model.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
        return values(model)


def test_a_parameter_group_that_is_added_is_exchanged(pool: Pool) -> None:
    model = network()
    optimizer = sgd(model[1:])
    for step in range(4):
        if step == 2:
            optimizer.add_param_group({"params": list(model[0].parameters())})
        model.zero_grad()
        loss_of(model, batch(step)).backward()
        optimizer.step()
    results = pool.run(add_later, 2, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], values(model))


def begin_again(me: Rank) -> list[torch.Tensor]:
    model = network()
    with started() as (rank, size):
        optimizer = wrapped(model)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
    with started():
        for step in range(2, 4):
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
    return values(model)


def test_an_optimizer_outlives_shutdown_and_init(pool: Pool) -> None:
    results = pool.run(begin_again, 2, environ=MANY_BUCKETS)
    assert_alike(results)
    assert_near(results[0], alone(4))


def tune(me: Rank, log: str) -> list[torch.Tensor]:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        for step in range(60):
            optimizer.zero_grad()
            loss_of(model, share(step % 3, rank, size)).backward()
            optimizer.step()
        return values(model)


def test_autotuning_changes_nothing_but_time(pool: Pool, tmp_path: Any) -> None:
    log = tmp_path / "autotune.csv"
    environ = {
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": str(log),
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2",
    }
    results = pool.run(tune, 2, str(log), environ=environ)
    assert_alike(results)
    assert log.read_text().splitlines()[-1].startswith("chosen,")
