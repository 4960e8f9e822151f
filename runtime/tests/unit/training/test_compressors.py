"""The contract of every compressor, also of other distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from aitne_train.compress import COMPRESSORS
from aitne_train.errors import HorovodInternalError
from aitne_train.exchange.allreduce import AllReduce
from aitne_train.exchange.base import Bucket, StrategySettings
from aitne_train.record_ring import RecordRing
from aitne_train.solo_transport import SoloTransport

NAMES = COMPRESSORS.names()
SIZES = [1, 2, 3, 17, 1000, 4097]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _settings(name: str, *, error_feedback: bool) -> StrategySettings:
    return StrategySettings(
        transport=SoloTransport(),
        recorder=RecordRing(),
        compressor=COMPRESSORS.get(name),
        failure=lambda error: HorovodInternalError(str(error)),
        error_feedback=error_feedback,
    )


def _strategy(name: str, sizes: list[int]) -> tuple[AllReduce, Bucket]:
    strategy = AllReduce(_settings(name, error_feedback=True))
    offsets = [sum(sizes[:k]) for k in range(len(sizes))]
    flat = torch.zeros(sum(sizes))
    bucket = Bucket(0, flat, (), [f"p{k}" for k in range(len(sizes))], offsets)
    strategy.setup([bucket])
    return strategy, bucket


def _step(strategy: AllReduce, bucket: Bucket, gradient: torch.Tensor) -> torch.Tensor:
    bucket.flat.copy_(gradient)
    strategy.on_bucket(bucket)
    strategy.on_step()
    return bucket.flat.clone()


def _residual(state: dict[str, Any], bucket: Bucket) -> torch.Tensor:
    residuals = state["residuals"]
    if not residuals:
        return torch.zeros_like(bucket.flat)
    return torch.cat([residuals[each] for each in bucket.names])


def test_the_ones_of_this_platform_are_there() -> None:
    assert {"none", "fp16", "bf16"} <= set(NAMES)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_length_and_dtype_come_back(name: str, size: int, dtype: torch.dtype) -> None:
    compressor = COMPRESSORS.get(name)()
    flat = torch.randn(size).to(dtype)
    row, context = compressor.compress(flat)
    restored = compressor.decompress(row, context)
    assert restored.shape == flat.shape
    assert restored.dtype == dtype
    torch.testing.assert_close(restored, flat, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_integers_pass_as_they_are(name: str, dtype: torch.dtype) -> None:
    compressor = COMPRESSORS.get(name)()
    flat = torch.arange(100).to(dtype)
    row, context = compressor.compress(flat)
    assert row.dtype == dtype
    assert torch.equal(compressor.decompress(row, context), flat)


def test_sent_and_residual_values_add_up_to_gradients(name: str) -> None:
    strategy, bucket = _strategy(name, SIZES)
    generator = torch.Generator().manual_seed(1)
    given = torch.zeros_like(bucket.flat, dtype=torch.float64)
    sent = given.clone()
    for _ in range(20):
        gradient = torch.randn(len(bucket.flat), generator=generator)
        given += gradient
        sent += _step(strategy, bucket, gradient)
    left = _residual(strategy.state_dict(), bucket)
    torch.testing.assert_close(sent + left, given, rtol=0, atol=1e-5)


def test_a_run_that_resumes_sends_the_same(name: str) -> None:
    first, bucket = _strategy(name, SIZES)
    gradients = [torch.randn(len(bucket.flat)) for _ in range(4)]
    for each in gradients[:2]:
        _step(first, bucket, each)
    state = first.state_dict()
    on = [_step(first, bucket, each) for each in gradients[2:]]

    resumed, bucket = _strategy(name, SIZES)
    resumed.load_state_dict(state)
    for each, expected in zip(gradients[2:], on, strict=True):
        assert torch.equal(_step(resumed, bucket, each), expected)


def test_an_infinite_gradient_leaves_nothing_behind(name: str) -> None:
    strategy, bucket = _strategy(name, [4])
    _step(strategy, bucket, torch.tensor([float("inf"), 1e30, float("nan"), 1.0]))
    assert _residual(strategy.state_dict(), bucket).isfinite().all()


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_error_feedback_sends_what_rounding_would_lose_for_ever(name: str) -> None:
    small = torch.full((3,), 2.0**-13)
    gradient = 1.0 + small  # both kinds of 16 bits round it to one, every time
    strategy, bucket = _strategy(name, [3])
    sent = sum(_step(strategy, bucket, gradient) for _ in range(2048))
    expected = 2048 * gradient
    assert ((sent - expected).abs() <= 0.01).all()
    plain = AllReduce(_settings(name, error_feedback=False))
    plain.setup([bucket])
    lost = sum(_step(plain, bucket, gradient) for _ in range(2048))
    assert ((lost - expected).abs() > 0.2).all()


@pytest.mark.parametrize(
    ("name", "exact", "infinite"), [("fp16", 1 + 2.0**-10, 1e5), ("bf16", 2.0**100, 3.4e38)]
)
def test_values_keep_the_range_and_precision_of_their_kind(
    name: str, exact: float, infinite: float
) -> None:
    strategy = AllReduce(_settings(name, error_feedback=False))
    bucket = Bucket(0, torch.tensor([exact, infinite]), (), ["weight"], [0])
    strategy.setup([bucket])
    strategy.on_bucket(bucket)
    strategy.on_step()
    assert bucket.flat.tolist() == [exact, float("inf")]
