from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from aitne_train import collective_arithmetic
from aitne_train.collective_request import ReduceOp
from aitne_train.solo_transport import SoloTransport
from aitne_train.transport.base import Reduction


class Doubling(SoloTransport):
    """A transport as if another rank had the same values; it reduces some types of elements only."""

    size = 2

    def __init__(self, *dtypes: torch.dtype) -> None:
        super().__init__()
        self.dtypes = dtypes

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        return dtype in self.dtypes

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        assert flat.dtype in self.dtypes
        flat.mul_(2)

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        out.copy_(flat[: counts[0]] * 2)


ALL = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_integers_are_scaled_in_float64_and_cut_off_towards_zero(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1, 3, 7], dtype=dtype)
    collective_arithmetic.scale_tensor(tensor, 0.5)
    assert tensor.tolist() == [0, 1, 3]


def test_an_average_of_integers_is_exact_where_it_is_whole() -> None:
    for size in range(1, 65):
        tensor = torch.tensor([size, -3 * size, 7 * size + size - 1])
        collective_arithmetic.scale_tensor(tensor, 1.0, size)
        assert tensor.tolist() == [1, -3, 7]


def test_negative_integers_go_towards_zero_too() -> None:
    tensor = torch.tensor([-7, 7])
    collective_arithmetic.scale_tensor(tensor, 0.5)
    assert tensor.tolist() == [-3, 3]


def test_halves_are_scaled_with_the_precision_of_float32() -> None:
    tensor = torch.tensor([3.0], dtype=torch.float16)
    collective_arithmetic.scale_tensor(tensor, 1 / 3)  # 1/3 in float16 would give 0.9995
    assert tensor.item() == 1.0


def test_an_average_is_a_sum_divided_with_factors_before_and_after() -> None:
    flat = torch.tensor([1.0, 2.0])
    collective_arithmetic.reduce_fused(Doubling(*ALL), flat, ReduceOp.AVERAGE, 3.0, 5.0)
    assert flat.tolist() == [15.0, 30.0]


@pytest.mark.parametrize(
    ("dtype", "through"),
    [
        (torch.bfloat16, torch.float32),
        (torch.uint8, torch.int32),
        (torch.int16, torch.int64),
        (torch.bool, torch.int32),
    ],
)
def test_unsupported_type_is_reduced_in_wider_type(
    dtype: torch.dtype, through: torch.dtype
) -> None:
    flat = torch.tensor([1, 0, 1]).to(dtype)
    collective_arithmetic.reduce_fused(Doubling(through), flat, ReduceOp.SUM, 1.0, 1.0)
    assert flat.dtype is dtype
    assert flat.tolist() == (torch.tensor([1, 0, 1]) * 2).to(dtype).tolist()


def test_type_without_wider_type_is_refused() -> None:
    flat = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(
        collective_arithmetic.UnsupportedError, match="solo cannot take the sum of elements of type"
    ):
        collective_arithmetic.reduce_fused(Doubling(torch.float32), flat, ReduceOp.SUM, 3.0, 1.0)
    assert flat.tolist() == [1, 1], "what was given is as it was"


@pytest.mark.parametrize(("rows", "ranks"), [(0, 3), (1, 3), (7, 3), (9, 3), (64, 64)])
def test_the_first_ranks_get_the_rows_that_do_not_divide(rows: int, ranks: int) -> None:
    each = collective_arithmetic.divide_rows(rows, ranks)
    assert sum(each) == rows
    assert each == sorted(each, reverse=True)
    assert max(each) - min(each) <= 1


def test_a_scattered_average_keeps_its_input_and_its_later_dimensions() -> None:
    tensor = torch.arange(10.0).view(5, 2)
    before = tensor.clone()
    part = collective_arithmetic.reduce_and_scatter(
        Doubling(*ALL), tensor, ReduceOp.AVERAGE, 1.0, 3.0
    )
    assert part.tolist() == (before[:3] * 3).tolist()
    assert torch.equal(tensor, before)


def test_a_row_of_several_tensors_comes_back_to_each() -> None:
    buffer = collective_arithmetic.FusionBuffer()
    tensors = [torch.tensor(1.0), torch.arange(6.0).view(2, 3), torch.empty(0)]
    row = buffer.fuse(tensors)
    assert row.tolist() == [1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    outputs = [torch.empty_like(tensor) for tensor in tensors]
    collective_arithmetic.unfuse_tensors(row * 2, outputs)
    for tensor, output in zip(tensors, outputs, strict=True):
        assert torch.equal(output, tensor * 2)
    assert buffer.fuse(tensors[:1]).tolist() == [1.0]
