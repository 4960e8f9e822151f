"""Tests of the ring of records: complete and in order, lost records counted, no waiting."""

from __future__ import annotations

import threading

import pytest

from aitne_train.record_ring import NullRecorder, RecordRing, create_recorder


def numbers(ring: RecordRing) -> list[int]:
    return [entry[2] for entry in ring.drain()]


def test_gives_what_came_since_the_last_time_in_order() -> None:
    ring = RecordRing(8)
    ring.add("allreduce", 1, 2, 10, 20)
    ring.step()
    first = ring.drain()
    assert [entry[1] for entry in first] == ["allreduce", "step"]
    assert first[0][2:6] == (1, 2, 10, 20)
    assert first[0][6] == threading.get_ident()
    assert ring.drain() == []
    ring.add("barrier", 0, 2, 30, 40)
    assert [entry[1] for entry in ring.drain()] == ["barrier"]


@pytest.mark.parametrize("added", [7, 8, 9, 16, 20, 25])
def test_keeps_the_newest_and_counts_what_was_written_over(added: int) -> None:
    ring = RecordRing(8)
    for number in range(added):
        ring.add("allreduce", number, 2, 0, 0)
    kept = numbers(ring)
    assert kept == list(range(max(0, added - 8), added))
    assert ring.dropped == added - len(kept)


def test_threads_lose_nothing_to_each_other() -> None:
    ring = RecordRing(1 << 14)

    def write(first: int) -> None:
        for number in range(first, first + 2000):
            ring.add("allreduce", number, 2, 0, 0)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 8000, 2000)]
    for thread in threads:
        thread.start()
    seen: list[int] = []
    while any(thread.is_alive() for thread in threads):
        seen += numbers(ring)
    seen += numbers(ring)
    assert sorted(seen) == list(range(8000))
    assert ring.dropped == 0


def test_a_ring_says_what_size_it_may_have() -> None:
    with pytest.raises(ValueError, match="power of two"):
        RecordRing(1000)


def test_recording_is_on_unless_it_is_told_off() -> None:
    assert isinstance(create_recorder({}), RecordRing)
    assert isinstance(create_recorder({"AITNE_RECORD": "1"}), RecordRing)
    assert isinstance(create_recorder({"AITNE_RECORD": "0"}), NullRecorder)
