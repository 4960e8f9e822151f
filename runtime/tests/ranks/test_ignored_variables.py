"""Variables of Horovod without an effect are named once."""

from __future__ import annotations

from aitne_train import lifecycle
from tests.support.ranks import Pool, Rank


def begins_twice(me: Rank) -> None:
    for _ in range(2):
        lifecycle.init()
        lifecycle.shutdown()


def test_ignored_variables_are_named_once_for_all_ranks(pool: Pool) -> None:
    environ = {
        "HOROVOD_LOG_LEVEL": "debug",
        "HOROVOD_CYCLE_TIME": "1",
        "HOROVOD_CACHE_CAPACITY": "9",
    }
    first, second = pool.outcomes(begins_twice, 2, environ=environ)
    assert (first.error, second.error) == ("", "")
    line = "HOROVOD_CYCLE_TIME, HOROVOD_LOG_LEVEL have no effect in aitne_train"
    assert first.output.count(line) == 1
    assert line not in second.output
