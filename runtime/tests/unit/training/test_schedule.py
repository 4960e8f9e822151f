"""Learning rates and LARS against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from aitne_train.large_batches import LARS, GradualWarmUp, linear_scaling, step_decay


def _sgd(rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)


def _rates(scheduler: torch.optim.lr_scheduler.LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(scheduler.get_last_lr()[0])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def test_the_rate_grows_as_the_batch_does() -> None:
    assert linear_scaling(0.1, 8192, 256) == pytest.approx(3.2)
    assert linear_scaling(0.1, 128, 256) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="positive"):
        linear_scaling(0.1, 0, 256)


def test_warm_up_goes_from_one_ranks_rate_to_all_of_it_in_equal_steps() -> None:
    scheduler = GradualWarmUp(_sgd(0.8), factor=8, steps=7)
    assert _rates(scheduler, 9) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.8])


def test_rates_fall_after_the_warm_up_at_milestones() -> None:
    scheduler = GradualWarmUp(_sgd(1.0), factor=2, steps=2, after=step_decay([4, 6]))
    assert _rates(scheduler, 8) == pytest.approx([0.5, 0.75, 1, 1, 0.1, 0.1, 0.01, 0.01])


def test_no_steps_of_warm_up_is_the_whole_rate_at_once() -> None:
    assert _rates(GradualWarmUp(_sgd(0.4), factor=4, steps=0), 2) == [0.4, 0.4]


def test_a_resumed_run_has_the_rates_of_one_that_went_on() -> None:
    whole = _rates(GradualWarmUp(_sgd(1.6), 16, 10, after=step_decay([12])), 15)
    optimizer = _sgd(1.6)
    scheduler = GradualWarmUp(optimizer, 16, 10, after=step_decay([12]))
    begun = _rates(scheduler, 5)
    saved = optimizer.state_dict(), scheduler.state_dict()

    optimizer = _sgd(1.6)
    scheduler = GradualWarmUp(optimizer, 16, 10, after=step_decay([12]))
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    assert begun + _rates(scheduler, 10) == whole
    assert optimizer.param_groups[0]["lr"] == scheduler.get_last_lr()[0]


@pytest.mark.parametrize(("factor", "steps"), [(0.5, 3), (2, -1)])
def test_a_warm_up_that_cannot_be_is_refused(factor: float, steps: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        GradualWarmUp(_sgd(0.1), factor, steps)


def test_lars_follows_the_paper() -> None:
    # |w| = 5, |g| = 10: local rate 0.5 * 5 / (10 + 0.2 * 5) = 5/22.
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = LARS([weight], lr=0.1, momentum=0.9, weight_decay=0.2, trust=0.5)
    weight.grad = torch.tensor([6.0, 8.0], dtype=torch.float64)
    optimizer.step()
    # v = 0.1 * 5/22 * (6.6, 8.8) = (0.15, 0.2)
    assert weight.tolist() == pytest.approx([2.85, 3.8])
    # |w| = 4.75: local rate 0.5 * 4.75 / (10 + 0.95) = 2.375 / 10.95.
    weight.grad = torch.tensor([6.0, 8.0], dtype=torch.float64)
    optimizer.step()
    local = 2.375 / 10.95
    assert weight.tolist() == pytest.approx(
        [
            2.85 - (0.9 * 0.15 + 0.1 * local * (6 + 0.2 * 2.85)),
            3.8 - (0.9 * 0.2 + 0.1 * local * (8 + 0.2 * 3.8)),
        ]
    )


def test_lars_is_sgd_where_it_is_told_to_be_and_where_a_norm_is_zero() -> None:
    plain = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    zero = torch.nn.Parameter(torch.zeros(2))
    optimizer = LARS(
        [{"params": [plain], "adapt": False}, {"params": [zero]}], lr=0.5, momentum=0.0
    )
    for each in (plain, zero):
        each.grad = torch.tensor([1.0, -1.0])
    optimizer.step()
    assert plain.tolist() == [0.5, 2.5]
    assert zero.tolist() == [-0.5, 0.5]


def test_lars_leaves_parameters_without_gradient_and_calls_the_closure() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = LARS([weight])
    assert optimizer.step(lambda: 4.5) == 4.5
    assert weight.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="trust"):
        LARS([weight], trust=-1)


def test_lars_resumes_with_its_momentum() -> None:
    def train(weight: torch.nn.Parameter, optimizer: LARS, steps: int) -> None:
        for _ in range(steps):
            weight.grad = weight.detach() * 0.5 + 1.0
            optimizer.step()

    whole = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    train(whole, LARS([whole], trust=0.1), 6)
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = LARS([weight], trust=0.1)
    train(weight, optimizer, 3)
    resumed = LARS([weight], trust=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    train(weight, resumed, 3)
    assert torch.equal(weight, whole)
