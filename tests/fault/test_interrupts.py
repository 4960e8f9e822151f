"""Interrupted collectives in a small number; ``python -m tests.fault.interrupts`` makes many."""

from __future__ import annotations

import pytest

from tests.support import realtime
from tests.support.ranks import Pool
from tests.support.requirements import need_package

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), realtime.RANKS]


@pytest.mark.parametrize("ranks", [2, 3])
def test_no_interrupt_gives_a_wrong_value_or_a_hang(ranks: int) -> None:
    need_package("torch")
    from tests.fault import interrupts

    pool = Pool()
    try:
        result = interrupts.run(pool, count=60, ranks=ranks, seed=20_261_128)
    finally:
        pool.close()
    assert result.ok, result.summary()
    assert result.kills
