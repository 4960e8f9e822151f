"""Compressors whose rows cannot be summed as they are: ranks gather them, each with its own context."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from aitne_train.errors import HorovodInternalError
from aitne_train.exchange.allreduce import AllReduce
from aitne_train.exchange.base import Bucket, StrategySettings
from aitne_train.record_ring import RecordRing
from aitne_train.transport.base import Reduction
from aitne_train.transport.shm import ShmTransport
from tests.support.ranks import Pool, Rank


class Scaled:
    """8-bit integers and the scale of this rank's values."""

    name: ClassVar[str] = "scaled"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = False

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        scale = flat.abs().max().item() / 127
        return (flat / scale).round().to(torch.int8), {"scale": scale}

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        return row.to(torch.float32) * context["scale"]


class NonZero:
    """Only the values that are not zero, and their places: rows of another length on each rank."""

    name: ClassVar[str] = "nonzero"
    error_feedback: ClassVar[bool] = False
    reducible: ClassVar[bool] = False

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        places = flat.nonzero().view(-1)
        return flat[places], [flat.numel(), places.tolist()]

    def decompress(self, row: torch.Tensor, context: Any) -> torch.Tensor:
        length, places = context
        flat = row.new_zeros(length)
        flat[places] = row
        return flat


class OfAType(Scaled):
    """A compressor whose context cannot be sent."""

    def compress(self, flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return flat, flat.dtype


def exchanged(
    me: Rank, compressor: type[Any], rows: list[list[float]], op: Reduction
) -> list[float]:
    transport = ShmTransport.connect(me.group(), "cpu")
    flat = torch.tensor(rows[me.rank])
    bucket = Bucket(0, flat, [torch.nn.Parameter(flat.clone())], ["weight"], [0])
    strategy = AllReduce(
        StrategySettings(
            transport=transport,
            recorder=RecordRing(),
            compressor=compressor,
            failure=HorovodInternalError,
            op=op,
        )
    )
    strategy.setup([bucket])
    try:
        strategy.on_bucket(bucket)
        strategy.on_step()
    finally:
        strategy.close()
        transport.close()
    return flat.tolist()


@pytest.mark.parametrize(
    ("op", "expected"),
    [(Reduction.SUM, [-125.73, 254.0]), (Reduction.MAX, [1.27, 254.0])],
)
def test_each_rank_s_row_is_restored_with_its_own_context(
    pool: Pool, op: Reduction, expected: list[float]
) -> None:
    rows = [[1.27, 0.0], [-127.0, 254.0]]
    found = pool.run(exchanged, 2, Scaled, rows, op)
    assert found[0] == found[1]
    assert found[0] == pytest.approx(expected, abs=1.01)


def test_rows_may_differ_in_length(pool: Pool) -> None:
    rows = [[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert pool.run(exchanged, 3, NonZero, rows, Reduction.SUM) == [[1.0, 0.0, 4.0, 2.0]] * 3


def refused(me: Rank) -> str:
    with pytest.raises(TypeError) as caught:
        exchanged(me, OfAType, [[1.0], [2.0]], Reduction.SUM)
    return str(caught.value)


def test_a_context_that_cannot_be_sent_is_refused(pool: Pool) -> None:
    for words in pool.run(refused, 2):
        assert "context" in words
        assert "dtype" in words
