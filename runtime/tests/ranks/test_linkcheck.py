"""The link check names slow links alone."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
import torch

from aitne_train import context, lifecycle, linkcheck
from aitne_train.errors import HorovodInternalError
from aitne_train.transport.base import Group, Reduction, Transport, TransportError
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS


class Slow:
    """A transport that takes its time for every byte: as over a bad cable."""

    def __init__(self, inner: Transport, bytes_per_s: float) -> None:
        self._inner = inner
        self._bytes_per_s = bytes_per_s

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        self._inner.allreduce(flat, op)
        time.sleep(flat.nbytes / self._bytes_per_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def with_a_bad_cable(group: Group, device: str) -> Any:
    """Connect with 20 MB/s between ranks 1 and 2, and with 200 MB/s otherwise."""
    return Slow(linkcheck.connect_group(group, device), 20e6 if group.ranks == (1, 2) else 200e6)


def find_slow(me: Rank) -> tuple[list[tuple[int, int]], str, int, int]:
    lifecycle.init()
    here = context.require_context()
    report = linkcheck.check_links(here, with_a_bad_cable)
    lifecycle.shutdown()
    slow = [link.ranks for link in report.slow]
    return slow, linkcheck.format_report(report, here.nodes), len(report.links), report.left_out


def test_a_slow_link_is_named_on_every_rank(pool: Pool) -> None:
    found = pool.run(find_slow, 4)
    assert len(set(map(str, found))) == 1, "all ranks know the same"
    slow, words, measured, left_out = found[0]
    assert slow == [(1, 2)]
    assert (measured, left_out) == (6, 0)
    first, *others = words.splitlines()
    assert first.startswith("aitne: slow link between rank 1 (node 0) and rank 2 (node 0): ")
    assert "% of the median of" in first
    assert "6 links within nodes: median " in others[0]
    assert "all ranks at once: " in others[1]


def at_once_noisy(group: Group, device: str) -> Any:
    """Connect with a link that is slow only while others exchange: the second measurement is fast."""
    busy = group.ranks == (1, 2) and "again" not in group.name
    return Slow(linkcheck.connect_group(group, device), 20e6 if busy else 200e6)


def look_twice(me: Rank) -> int:
    lifecycle.init()
    report = linkcheck.check_links(context.require_context(), at_once_noisy)
    lifecycle.shutdown()
    return len(report.slow)


def test_a_link_is_looked_at_twice(pool: Pool) -> None:
    assert pool.run(look_twice, 3) == [0, 0, 0]


def no_time(me: Rank) -> tuple[int, str]:
    lifecycle.init()
    here = context.require_context()
    report = linkcheck.check_links(here, budget_s=0.0)
    lifecycle.shutdown()
    return report.left_out, linkcheck.format_report(report, here.nodes)


def test_links_without_time_for_measurement_are_reported(pool: Pool) -> None:
    for left_out, words in pool.run(no_time, 3):
        assert left_out == 3
        assert words == "aitne: 3 links were not measured for lack of time"


def broken(group: Group, device: str) -> Any:
    if group.ranks == (0, 2):
        raise TransportError("no route to host")
    return linkcheck.connect_group(group, device)


def find_broken(me: Rank) -> str:
    lifecycle.init()
    with pytest.raises(HorovodInternalError) as caught:
        linkcheck.check_links(context.require_context(), broken)
    lifecycle.shutdown()
    return str(caught.value)


def test_ranks_that_cannot_exchange_are_named(pool: Pool) -> None:
    said = pool.run(find_broken, 3)
    words = "ranks 0 (node 0) and 2 (node 0) cannot exchange: no route to host"
    assert said[0] == said[2] == words


def at_init(me: Rank) -> None:
    lifecycle.init()
    sys.stderr.write("training begins\n")
    lifecycle.shutdown()


def test_init_does_it_where_that_is_asked_for(pool: Pool) -> None:
    outcomes = pool.outcomes(at_init, 2, environ={"AITNE_LINK_CHECK": "1"})
    assert [each.error for each in outcomes] == ["", ""]
    log = outcomes[0].output
    assert log.index("aitne: 1 link within nodes: median ") < log.index("training begins")
    assert "aitne:" not in outcomes[1].output
