"""The document of a run, from what its ranks say."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aitne_train.profile_document import (
    LIMIT_BYTES,
    MOST_POINTS,
    MOST_RANKS,
    History,
    build_document,
    compute_totals,
)


def message(**changes: Any) -> dict[str, Any]:
    return {
        "steps": 10,
        "records": 20,
        "dropped": 0,
        "elapsed_s": 11.0,
        "watched_s": 10.0,
        "communicating_s": 4.0,
        "blocked_s": 3.0,
        "hidden_s": 1.0,
        "waits": True,
        "elsewhere": True,
        "cells": [["allreduce", 4, 10, 10_000_000, 2.0, 0.1, 0.3, 4]],
        **changes,
    }


def test_shares_are_means_and_overlap_is_of_all_communication() -> None:
    found = build_document(
        {0: message(), 1: message(communicating_s=2.0, hidden_s=2.0)}, (0, 0), final=True
    )
    assert found["communicating"] == 0.3
    assert found["blocked"] == 0.3
    assert found["overlap"] == 0.5
    assert found["step_s"] == 1.0
    assert found["size"] == 2
    assert found["final"] is True


def test_overlap_is_not_known_where_a_worker_communicates_and_nobody_says_who_waited() -> None:
    untold, told = message(waits=False), message()
    assert build_document({0: untold, 1: untold}, (0, 0), final=True)["overlap"] is None
    found = build_document({0: untold, 1: told}, (0, 0), final=True)
    assert found["overlap"] == 0.25
    assert [row["overlap"] for row in found["ranks"]] == [0.25, 0.25]
    inline = message(waits=False, elsewhere=False, hidden_s=0.0)
    assert build_document({0: inline}, (0,), final=True)["overlap"] == 0.0


def test_collectives_queued_on_gpus_have_no_times() -> None:
    late = message(blocked_s=0.2, queued=True)
    history = [{"t_s": 1.0, "steps": 1, "step_s": 1.0, "communicating": 0.4, "blocked": 0.3}]
    found = build_document({0: message(queued=True), 1: late}, (0, 0), history, final=True)
    shares = ("communicating", "blocked", "overlap", "straggler")
    assert [found[name] for name in shares] == [None] * 4
    assert (found["steps"], found["step_s"]) == (10, 1.0)
    assert {row["own_s"] for row in found["ranks"]} == {None}
    assert found["history"][0]["communicating"] is None
    assert found["table"][0]["count"] == 10
    assert found["table"][0]["bus_bytes_per_s"] == 0


def test_names_the_rank_the_others_wait_for() -> None:
    late = message(blocked_s=0.2)
    found = build_document(
        {0: message(), 1: message(), 2: late, 3: message()}, (0, 0, 1, 1), final=False
    )
    assert found["straggler"] == {"rank": 2, "node": 1, "behind_s": 0.28, "share": 0.28}


def test_names_nobody_where_ranks_are_about_equal() -> None:
    found = build_document({0: message(), 1: message(blocked_s=2.7)}, (0, 0), final=False)
    assert found["straggler"] is None


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("allreduce", 4, 1.5),
        ("allgather", 4, 3),
        ("reducescatter", 4, 0.75),
        ("broadcast", 4, 1),
        ("allreduce", 1, 0),
    ],
)
def test_bus_bandwidth_counts_what_any_algorithm_must_move(
    op: str, ranks: int, factor: float
) -> None:
    cells = [[op, 4, 10, 1_000_000, 2.0, 0.1, 0.3, ranks]]
    (row,) = build_document({0: message(cells=cells)}, (0,) * ranks, final=True)["table"]
    assert row["bus_bytes_per_s"] == round(500_000 * factor)


def test_rows_of_ranks_become_one() -> None:
    other = message(cells=[["allreduce", 4, 12, 12_000_000, 4.0, 0.05, 0.9, 4]])
    (row,) = build_document({0: message(), 1: other}, (0, 0), final=True)["table"]
    assert row == {
        "op": "allreduce",
        "from_bytes": 128 * 1024 + 1,
        "to_bytes": 1024 * 1024,
        "count": 12,
        "bytes": 12_000_000,
        "time_s": 3.0,
        "fastest_s": 0.05,
        "slowest_s": 0.9,
        "bus_bytes_per_s": 5_500_000,
    }


def test_report_without_messages_is_valid() -> None:
    found = build_document({}, (0, 0), final=False, now=datetime(2026, 1, 2, tzinfo=UTC))
    assert found["written_at"] == "2026-01-02T00:00:00.000Z"
    assert found["communicating"] is None
    assert found["overlap"] is None
    assert found["table"] == found["ranks"] == []


def test_a_run_without_steps_has_shares_but_no_step() -> None:
    found = build_document({0: message(steps=0)}, (0,), final=True)
    assert (found["steps"], found["step_s"], found["communicating"]) == (0, None, 0.4)


def test_a_large_and_long_run_stays_within_the_limit() -> None:
    history = History()
    for second in range(5000):
        history.add(
            second + 0.123456,
            {
                "steps": second * 7,
                "watched_s": second * 0.9871,
                "communicating_s": second * 0.31,
                "blocked_s": second * 0.21,
            },
        )
    ops = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "adasum")
    cells = [
        [op, row, 123456, 10**13 + row, 1234.5678901, 0.0012345, 12.3456789, 2000]
        for op in ops
        for row in range(9)
    ]
    messages = {
        rank: message(cells=cells, steps=34993, watched_s=4935.123 + rank / 7)
        for rank in range(2000)
    }
    found = build_document(
        messages, tuple(rank // 8 for rank in range(2000)), history.points, final=True
    )
    assert len(json.dumps(found)) < LIMIT_BYTES
    assert len(found["ranks"]) == MOST_RANKS
    assert len(found["history"]) <= MOST_POINTS


def test_history_keeps_what_happened_when_points_are_joined() -> None:
    history = History()
    for second in range(1, 1001):
        busy = 0.5 * second if second <= 500 else 250.0
        history.add(
            second,
            {"steps": second * 2, "watched_s": second, "communicating_s": busy, "blocked_s": 0.0},
        )
    early = [point for point in history.points if point["t_s"] <= 400]
    late = [point for point in history.points if point["t_s"] > 600]
    assert early
    assert late
    assert {point["communicating"] for point in early[1:]} == {0.5}
    assert {point["communicating"] for point in late} == {0.0}
    assert all(point["step_s"] == 0.5 for point in history.points[1:])


def test_totals_are_means_and_the_steps_of_the_slowest() -> None:
    found = compute_totals({0: message(steps=4), 1: message(steps=3, watched_s=20.0)})
    assert found == {"steps": 3, "watched_s": 15.0, "communicating_s": 4.0, "blocked_s": 3.0}
