"""Tests of the summary of a rank's records: rows by message size, and three durations."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.collective_summary import (
    EDGES,
    MIB,
    CollectiveSummary,
    find_size_row,
    get_row_bounds,
    measure_covered_time,
)
from aitne_train.record_ring import STEP, WAIT, Entry

TRAINER = threading.main_thread().ident or 0
WORKER = TRAINER + 1

interval = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda ab: (min(ab), max(ab)))
intervals = st.lists(interval, max_size=12)


def entry(op: str, t0: int, t1: int, *, nbytes: int = 4, thread: int = TRAINER) -> Entry:
    return (0, op, nbytes, 2, t0, t1, thread)


def mark(at: int) -> Entry:
    return entry(STEP, at, at)


def instants(pairs: list[tuple[int, int]]) -> set[int]:
    return {at for begin, end in pairs for at in range(begin, end)}


@given(intervals)
def test_time_that_several_intervals_cover_counts_once(pairs: list[tuple[int, int]]) -> None:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    assert measure_covered_time(both[:, 0], both[:, 1]) == len(instants(pairs))


@given(
    inline=intervals,
    worker=intervals,
    waits=intervals,
    parts=st.lists(st.integers(1, 7), min_size=1, max_size=40),
)
def test_the_three_lengths_are_those_of_the_instants(
    inline: list[tuple[int, int]],
    worker: list[tuple[int, int]],
    waits: list[tuple[int, int]],
    parts: list[int],
) -> None:
    """The result does not depend on the intervals between two marks or on how they are divided."""
    within = [
        *(entry("allreduce", a, b) for a, b in inline),
        *(entry("allreduce", a, b, thread=WORKER) for a, b in worker),
        *(entry(WAIT, a, b) for a, b in waits),
    ]
    entries = [mark(0), *sorted(within, key=lambda each: each[5]), mark(50)]
    summary = CollectiveSummary()
    while entries:
        count = parts[len(entries) % len(parts)]
        summary.add_records(entries[:count])
        entries = entries[count:]
    watched = set(range(50))
    busy = (instants(inline) | instants(worker)) & watched
    stopped = (instants(inline) | instants(waits)) & watched
    message = summary.build_message()
    assert message["steps"] == 1
    assert message["watched_s"] * 1e9 == pytest.approx(50)
    assert message["communicating_s"] * 1e9 == pytest.approx(len(busy))
    assert message["blocked_s"] * 1e9 == pytest.approx(len(stopped))
    assert message["hidden_s"] * 1e9 == pytest.approx(len(busy - stopped))


@given(st.integers(0, 200 * MIB))
def test_every_size_has_the_one_row_whose_bounds_hold_it(nbytes: int) -> None:
    low, high = get_row_bounds(find_size_row(nbytes))
    assert low <= nbytes
    assert high is None or nbytes <= high


def test_rows_meet_without_a_gap() -> None:
    bounds = [get_row_bounds(row) for row in range(len(EDGES) + 1)]
    assert bounds[0] == (0, 128)
    assert bounds[-1] == (64 * MIB + 1, None)
    assert all(
        one[1] is not None and one[1] + 1 == two[0] for one, two in itertools.pairwise(bounds)
    )


def test_collectives_before_first_step_count_in_table_only() -> None:
    summary = CollectiveSummary()
    summary.add_records(
        [entry("broadcast", 0, 1000), mark(2000), entry("allreduce", 2010, 2020), mark(2100)]
    )
    message = summary.build_message()
    assert [cell[0] for cell in message["cells"]] == ["allreduce", "broadcast"]
    assert message["watched_s"] == pytest.approx(100e-9)
    assert message["communicating_s"] == pytest.approx(10e-9)


def test_a_program_without_steps_is_measured_from_its_first_record_to_its_last() -> None:
    summary = CollectiveSummary()
    summary.add_records([entry("allreduce", 1000, 1010)])
    summary.add_records([])
    summary.add_records([entry("allreduce", 1090, 1100)])
    message = summary.build_message()
    assert message["steps"] == 0
    assert message["watched_s"] == pytest.approx(100e-9)
    assert message["blocked_s"] == pytest.approx(20e-9)


def test_says_whether_it_can_tell_what_was_hidden() -> None:
    told, untold, inline = CollectiveSummary(), CollectiveSummary(), CollectiveSummary()
    worker = entry("allreduce", 10, 20, thread=WORKER)
    untold.add_records([mark(0), worker, mark(30)])
    told.add_records([mark(0), worker, entry(WAIT, 15, 20), mark(30)])
    inline.add_records([mark(0), entry("allreduce", 10, 20), mark(30)])
    said = [
        (each.build_message()["elsewhere"], each.build_message()["waits"])
        for each in (untold, told, inline)
    ]
    assert said == [(True, False), (True, True), (False, False)]
    assert told.build_message()["hidden_s"] == pytest.approx(5e-9)
    assert inline.build_message()["hidden_s"] == 0


def test_wait_of_other_thread_is_not_counted_as_blocked() -> None:
    summary = CollectiveSummary()
    summary.add_records(
        [mark(0), entry(WAIT, 5, 25, thread=WORKER), entry("allreduce", 5, 25, thread=WORKER)]
    )
    summary.add_records([mark(30)])
    message = summary.build_message()
    assert message["blocked_s"] == 0
    assert message["hidden_s"] == pytest.approx(20e-9)


def test_a_cell_counts_messages_bytes_and_time() -> None:
    summary = CollectiveSummary()
    summary.add_records(
        [entry("allreduce", 0, 10, nbytes=100), entry("allreduce", 10, 40, nbytes=28)]
    )
    (cell,) = summary.build_message(dropped=3)["cells"]
    assert cell == ["allreduce", 0, 2, 128, 40e-9, 10e-9, 30e-9, 2]
    assert summary.build_message(dropped=3)["dropped"] == 3
