"""Tests of the search for late ranks from the ranks' heartbeats."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest
import torch

from aitne_train.stall_detection import (
    Heartbeat,
    StalledCollective,
    Suspicion,
    describe_stall,
    find_runtime_entry,
    find_stall,
    format_ranks,
)

NOW = 1000.0


def beats(**waiting: float) -> dict[int, Heartbeat]:
    """Return heartbeats from ``r0=31``: rank 0 has waited for 31 s."""
    return {int(name[1:]): Heartbeat(NOW, waiting_s) for name, waiting_s in waiting.items()}


def test_rank_is_not_late_during_short_waits() -> None:
    assert find_stall(beats(r0=29, r1=0), [], NOW, 30) is None


def test_a_rank_that_computes_while_others_wait_is_late() -> None:
    found = find_stall(beats(r0=31, r1=0, r2=33), [], NOW, 30)
    assert found == StalledCollective((1,), "an exchange", (0, 2), 33.0)


def test_heartbeat_of_rank_ages() -> None:
    said = {0: Heartbeat(NOW - 4, 27.0), 1: Heartbeat(NOW - 4, 0.0)}
    found = find_stall(said, [], NOW, 30)
    assert found is not None
    assert found.ranks == (1,)


def test_a_rank_that_says_nothing_is_late_and_the_others_are_not() -> None:
    said = {**beats(r0=31, r2=0), 1: Heartbeat(NOW - 35, 0.0)}
    found = find_stall(said, [], NOW, 30)
    assert found is not None
    assert found.ranks == (1,)
    assert found.silent == {1}


def test_silence_alone_is_nobodys_trouble() -> None:
    assert find_stall({0: Heartbeat(NOW, 0.0), 1: Heartbeat(NOW - 35, 0.0)}, [], NOW, 30) is None


def test_a_request_names_who_is_missing_from_it() -> None:
    pending = [
        ("allreduce 'b'", "allreduce", 31.0, (3,)),
        ("allreduce 'a'", "allreduce", 40.0, (1, 2)),
        ("join", "join", 100.0, ()),
    ]
    found = find_stall(beats(r0=41, r1=0, r2=0, r3=0), pending, NOW, 30)
    assert found == StalledCollective((1, 2), "allreduce 'a'", (0,), 40.0)


def test_wait_without_missing_rank_is_reported() -> None:
    found = find_stall(beats(r0=31, r1=32), [], NOW, 30)
    assert found == StalledCollective((), "an exchange", (0, 1), 32.0)
    assert "no rank is missing" in describe_stall(found, (0, 0))


def test_run_stalls_if_every_rank_waits_for_something_else() -> None:
    said = {
        0: Heartbeat(NOW, 0.0, 31.0, "load (a.py:1)"),
        1: Heartbeat(NOW - 2, 0.0, 40.0, "train (a.py:9)"),
    }
    found = find_stall(said, [], NOW, 30)
    assert found is not None
    assert describe_stall(found, (0, 0)) == (
        "no rank makes progress since 31 s: rank 0 waits in load (a.py:1) since 31 s;"
        " rank 1 waits in train (a.py:9) since 42 s"
    )


def test_rank_may_wait_while_another_one_computes() -> None:
    said = {0: Heartbeat(NOW, 0.0, 31.0, "load (a.py:1)"), 1: Heartbeat(NOW, 0.0, 2.0, "")}
    assert find_stall(said, [], NOW, 30) is None


def test_late_rank_is_named_with_what_it_waits_for() -> None:
    said = {
        **beats(r0=31, r3=33),
        1: Heartbeat(NOW, 0.0, 35.0, "load (a.py:1)"),
        2: Heartbeat(NOW, 0.0, 0.0, "train (a.py:9)"),
    }
    found = find_stall(said, [], NOW, 30)
    assert found is not None
    assert describe_stall(found, (0, 0, 0, 0)) == (
        "ranks 1 (node 0), 2 (node 0) are late for an exchange since 33 s; ranks 0, 3 wait for them;"
        " rank 1 waits in load (a.py:1) since 35 s; rank 2 is in train (a.py:9)"
    )


def test_late_rank_without_a_processor_is_said_to_wait_for_one() -> None:
    said = {**beats(r0=31), 1: Heartbeat(NOW, 0.0, 0.0, "load (a.py:1)", 24.0, 0.804)}
    found = find_stall(said, [], NOW, 30)
    assert found is not None
    assert describe_stall(found, (0, 0)) == (
        "rank 1 (node 0) is late for an exchange since 31 s; rank 0 waits for it;"
        " rank 1 is in load (a.py:1) and waits for a processor 80 % of the time"
    )


def confirmed(later: Heartbeat, after_s: float) -> bool:
    """Return whether a second look after ``after_s`` seconds confirms that rank 1 is stalled, which
    had waited for a processor for 24 s at the first look.
    """
    first = {**beats(r0=31), 1: Heartbeat(NOW, 0.0, 0.0, "train (a.py:9)", 24.0)}
    suspicion = Suspicion(first, NOW)
    now = NOW + after_s
    second = {0: Heartbeat(now, 31 + after_s), 1: later}
    stall = find_stall(second, [], now, 30)
    assert stall is not None
    return suspicion.confirm(stall, second, now, 30)


@pytest.mark.parametrize(
    ("later", "after_s", "expected"),
    [
        # It waits for something, in another collective, or does not answer.
        (Heartbeat(NOW + 5, 0.0, 20.0, "load (a.py:1)", 24.0), 5, True),
        (Heartbeat(NOW + 5, 20.0, 0.0, "train (a.py:9)", 24.0), 5, True),
        (Heartbeat(NOW - 30, 0.0, 0.0, "train (a.py:9)", 24.0), 5, True),
        # It computes: as long again.
        (Heartbeat(NOW + 29, 0.0, 0.0, "train (a.py:9)", 24.0), 29, False),
        (Heartbeat(NOW + 30, 0.0, 0.0, "train (a.py:9)", 24.0), 30, True),
        # It has had a processor for a part of the time.
        (Heartbeat(NOW + 60, 0.0, 0.0, "train (a.py:9)", 74.0), 60, False),
        (Heartbeat(NOW + 80, 0.0, 0.0, "train (a.py:9)", 74.0), 80, True),
    ],
    ids=["idle", "elsewhere", "silent", "computes", "still", "starved", "had its time"],
)
def test_second_look_confirms_a_stall_of_a_rank_that_is_not_only_slow(
    later: Heartbeat, after_s: float, expected: bool
) -> None:
    assert confirmed(later, after_s) is expected


def test_second_look_confirms_a_stall_without_a_missing_rank() -> None:
    said = beats(r0=36, r1=37)
    stall = find_stall(said, [], NOW, 30)
    assert stall is not None
    assert Suspicion(said, NOW - 5).confirm(stall, said, NOW, 30)


def test_the_sentence_names_ranks_and_nodes() -> None:
    one = StalledCollective((2,), "allreduce 'a'", (0, 1, 3), 31.4, frozenset({2}))
    assert describe_stall(one, (0, 0, 1, 1)) == (
        "rank 2 (node 1) is late for allreduce 'a' since 31 s; ranks 0-1, 3 wait for it;"
        " rank 2 does not answer"
    )
    two = StalledCollective((0, 1), "an exchange", (2,), 31.4)
    assert describe_stall(two, (0, 0, 1)) == (
        "ranks 0 (node 0), 1 (node 0) are late for an exchange since 31 s; rank 2 waits for them"
    )


@pytest.mark.parametrize(
    ("numbers", "words"), [([3], "rank 3"), ([0, 1, 2, 5], "ranks 0-2, 5"), ([4, 2], "ranks 2, 4")]
)
def test_ranks_in_words(numbers: list[int], words: str) -> None:
    assert format_ranks(numbers) == words


def frame_of(thread: threading.Thread) -> FrameType:
    return sys._current_frames()[thread.ident or 0]


def waiting_in(function: Any, *arguments: Any) -> tuple[threading.Thread, FrameType]:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    while "wait" not in frame_of(thread).f_code.co_name:
        pass
    return thread, frame_of(thread)


def test_tells_the_program_from_the_runtime() -> None:
    """A waiting call is attributed to the program or library that made it."""
    from runtime.tests.unit.training.test_preemption import Star

    from aitne_train.preemption import Agreement

    leave = threading.Event()
    own, in_own = waiting_in(lambda: leave.wait())
    assert find_runtime_entry(in_own) is None
    star = Star(2, 0)
    agreement = Agreement(star.ends[0], 0, 2)

    def step() -> None:
        for _ in range(3):
            agreement.after_step(True)

    ours, in_ours = waiting_in(step)
    found = find_runtime_entry(in_ours)
    assert found is not None
    assert found.f_code.co_name == "after_step"
    for lost in star.ends[0].lost:
        lost(1, "its connection closed")
    star.close()
    leave.set()
    own.join()
    ours.join()


def test_computing_is_not_waiting() -> None:
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
            seen.append(find_runtime_entry(sys._getframe()))
            return given * 2

    Look.apply(torch.ones(1))
    assert seen == [None]
