"""Tests of the division of gradients into buckets."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.exchange._bucket_fill import BucketFill, choose_strides
from aitne_train.exchange._bucket_plan import PlannedGradient, group_gradients, plan_buckets

MIB = 1 << 20

items = st.lists(
    st.builds(PlannedGradient, st.integers(0, 3 * MIB), st.sampled_from(["float32", "float16"])),
    max_size=40,
)


@given(items, st.randoms(), st.sampled_from([0, MIB // 2, 4 * MIB, 64 * MIB]), st.integers(0, 7))
def test_every_gradient_is_in_one_bucket_of_its_kind_and_size(items, random, cap, groups) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(items)))
    random.shuffle(order)
    buckets = plan_buckets(items, order, cap, groups)
    assert sorted(each for bucket in buckets for each in bucket) == sorted(order)
    for bucket in buckets:
        assert len({items[each].kind for each in bucket}) == 1
        if not groups:
            assert len(bucket) == 1 or sum(items[each].nbytes for each in bucket) <= cap
    assert plan_buckets(list(items), list(order), cap, groups) == buckets


@given(items, st.integers(1, 64 * MIB))
def test_buckets_become_complete_in_their_order(items: list[PlannedGradient], cap: int) -> None:
    order = list(range(len(items)))
    ends = [max(bucket) for bucket in plan_buckets(items, order, cap)]
    assert ends == sorted(ends)


def test_the_first_and_the_last_bucket_are_small_and_the_rest_full() -> None:
    items = [PlannedGradient(MIB // 2, "float32")] * 20
    sizes = [len(bucket) for bucket in plan_buckets(items, range(20), cap=4 * MIB)]
    assert sizes == [2, 8, 8, 2]


def test_tensors_within_first_bucket_share_one_exchange() -> None:
    assert plan_buckets([PlannedGradient(1000, "float32")] * 9, range(9)) == [list(range(9))]


def test_without_fusion_each_gradient_travels_alone() -> None:
    assert plan_buckets([PlannedGradient(8, "float32")] * 3, [2, 0, 1], cap=0) == [[2], [0], [1]]


def test_groups_are_not_parted_even_when_they_are_larger_than_a_bucket() -> None:
    items = [PlannedGradient(MIB, "float32")] * 6
    buckets = plan_buckets(items, range(6), cap=MIB, groups=[[0, 5], [1, 2, 3]])
    assert sorted(map(sorted, buckets)) == [[0, 5], [1, 2, 3], [4]]


@pytest.mark.parametrize(("count", "sizes"), [(1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (9, [1] * 5)])
def test_a_number_of_groups_cuts_the_order_into_nearly_equal_runs(
    count: int, sizes: list[int]
) -> None:
    runs = group_gradients([4, 3, 2, 1, 0], count)
    assert [len(run) for run in runs] == sizes
    assert [each for run in runs for each in run] == [4, 3, 2, 1, 0]


def _parameter(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.randn(shape))


def test_gradients_are_scaled_into_the_bucket_and_stay_there() -> None:
    parameters = [_parameter(200, 200), _parameter(7), _parameter(0), _parameter(3, 5)]
    for each in parameters[:3]:
        each.grad = torch.randn_like(each)
    expected = [each.grad.clone() * 0.5 for each in parameters[:3]]  # type: ignore[union-attr]
    lane = BucketFill(0, list("abcd"), parameters)
    lane.bucket.flat.fill_(9.0)
    lane.copy_remaining(0.5)
    for each, value in zip(parameters, [*expected, torch.zeros(3, 5)], strict=True):
        assert each.grad is not None
        assert torch.equal(each.grad, value)
    lane.bucket.flat.zero_()
    assert all(not each.grad.any() for each in parameters)  # type: ignore[union-attr]


def test_gradients_that_were_kept_in_place_are_scaled_there() -> None:
    parameters = [_parameter(200, 200), _parameter(7)]
    lane = BucketFill(0, ["a", "b"], parameters)
    lane.copy_remaining(0.5)
    parameters[0].grad.fill_(2.0)  # type: ignore[union-attr]
    parameters[1].grad = torch.full((7,), 4.0)
    lane.copy_remaining(0.5)
    assert lane.bucket.flat.tolist() == [1.0] * 40_000 + [2.0] * 7


def test_a_frozen_parameter_sends_zeros_and_gets_no_gradient() -> None:
    parameter = _parameter(3).requires_grad_(False)
    lane = BucketFill(0, ["a"], [parameter])
    lane.bucket.flat.fill_(1.0)
    lane.copy_remaining(0.5)
    assert lane.bucket.flat.tolist() == [0.0] * 3
    assert parameter.grad is None


def test_a_gradient_with_a_graph_is_refused() -> None:
    parameter = _parameter(3)
    parameter.grad = torch.ones(3, requires_grad=True)
    with pytest.raises(AssertionError, match="create_graph"):
        BucketFill(0, ["a"], [parameter]).copy_remaining(0.5)


def test_a_gradient_may_be_detached_and_zeroed_in_place() -> None:
    parameter = _parameter(3)
    BucketFill(0, ["a"], [parameter]).copy_remaining(1.0)
    parameter.grad.detach_().zero_()  # type: ignore[union-attr]


def test_a_gradient_has_its_parameters_memory_format() -> None:
    dense = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    parameter = torch.nn.Parameter(dense)
    place = BucketFill(0, ["a"], [parameter]).places[0]
    assert place.stride() == parameter.stride()
    assert choose_strides(torch.nn.Parameter(torch.randn(4, 4)[:, :2])) == (2, 1)
    assert choose_strides(torch.nn.Parameter(torch.randn(4, 6).t())) == (1, 6)
