"""All ranks end after the same step, for any rank with the signal and any delay of messages."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from typing import Any

import pytest

from aitne_train.preemption import Agreement


class Star:
    """Control connections within one process: each rank's messages are handled on a thread of its own,
    some of them late, in the order in which each sender sent them."""

    def __init__(self, size: int, seed: int) -> None:
        self._random = random.Random(seed)
        self.ends = [End(self, rank) for rank in range(size)]

    def close(self) -> None:
        for rank in range(len(self.ends)):
            self.put(rank, rank, "close", None)

    def put(self, sender: int, to: int, kind: str, payload: Any) -> None:
        self.ends[to].inbox.put((sender, kind, payload, self._random.random() ** 8 * 0.05))


class End:
    def __init__(self, star: Star, rank: int) -> None:
        self.star = star
        self.rank = rank
        self.inbox: queue.Queue[tuple[int, str, Any, float]] = queue.Queue()
        self.handlers: dict[str, Any] = {}
        self.lost: list[Any] = []
        threading.Thread(target=self._read, daemon=True).start()

    def register_handler(self, kind: str, handler: Any) -> None:
        self.handlers[kind] = handler

    def register_lost_handler(self, handler: Any) -> None:
        self.lost.append(handler)

    def send(self, rank: int, kind: str, payload: Any) -> None:
        if rank == self.rank:
            self._handle(rank, kind, payload)
        else:
            assert 0 in (rank, self.rank)
            self.star.put(self.rank, rank, kind, payload)

    def broadcast(self, kind: str, payload: Any) -> None:
        assert self.rank == 0
        for end in self.star.ends[1:]:
            self.star.put(0, end.rank, kind, payload)
        self._handle(0, kind, payload)

    def _handle(self, sender: int, kind: str, payload: Any) -> None:
        if kind in self.handlers:
            self.handlers[kind](sender, payload)

    def _read(self) -> None:
        while True:
            sender, kind, payload, delay_s = self.inbox.get()
            if kind == "close":
                return
            time.sleep(delay_s)
            self._handle(sender, kind, payload)


def train(
    star: Star, told: dict[int, int], last: int, *, late: int | None = None
) -> list[int | None]:
    """Run ranks that meet in each step; the ranks in ``told`` get the signal in their step.

    Returns:
        For each rank, the step after which it ended.
    """
    size = len(star.ends)
    meeting = threading.Barrier(size)
    ended: list[int | None] = [None] * size
    steps = random.Random(last)

    def run(rank: int) -> None:
        agreement = None if rank == late else Agreement(star.ends[rank], rank, size)
        for step in range(1, last + 1):
            meeting.wait(30)
            if agreement is None:
                time.sleep(0.05)
                agreement = Agreement(star.ends[rank], rank, size)
            if steps.random() < 0.1:
                time.sleep(0.001)
            if agreement.after_step(step >= told.get(rank, last + 1)):
                ended[rank] = step
                return

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    star.close()
    return ended


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("told", [{0: 5}, {2: 5}, {0: 5, 1: 5, 2: 6, 3: 7}])
def test_all_end_after_the_same_step(told: dict[int, int], seed: int) -> None:
    ended = train(Star(4, seed), told, 3000)
    assert len(set(ended)) == 1
    assert ended[0] is not None
    assert ended[0] >= 5


def test_ranks_without_signal_do_not_end() -> None:
    assert train(Star(3, 0), {}, 50) == [None] * 3


def test_a_single_rank_ends_within_two_steps() -> None:
    (ended,) = train(Star(1, 0), {0: 3}, 50)
    assert ended is not None
    assert 3 <= ended <= 5


@pytest.mark.parametrize("late", [0, 2])
def test_a_rank_that_listens_late_ends_with_the_others(late: int) -> None:
    ended = train(Star(3, 1), {1: 1}, 3000, late=late)
    assert len(set(ended)) == 1
    assert ended[0] is not None


class Line:
    """Control connections within one process and one thread: every message is handled at once."""

    def __init__(self, ends: list[Line], rank: int) -> None:
        self.ends = ends
        self.rank = rank
        self.handlers: dict[str, Any] = {}
        ends.append(self)

    def register_handler(self, kind: str, handler: Any) -> None:
        self.handlers[kind] = handler

    def register_lost_handler(self, handler: Any) -> None:
        pass

    def send(self, rank: int, kind: str, payload: Any) -> None:
        handler = self.ends[rank].handlers.get(kind)
        if handler is not None:
            handler(self.rank, json.loads(json.dumps(payload)))

    def broadcast(self, kind: str, payload: Any) -> None:
        for end in reversed(self.ends):
            self.send(end.rank, kind, payload)


def pair() -> list[Agreement]:
    ends: list[Line] = []
    lines = [Line(ends, rank) for rank in range(2)]
    return [Agreement(line, rank, 2) for rank, line in enumerate(lines)]


def test_ranks_that_had_different_numbers_of_steps_end_after_the_same() -> None:
    ranks = pair()
    for steps, agreement in zip((3, 5), ranks, strict=True):
        assert not any(agreement.after_step(False) for _ in range(steps))
        agreement.record_join()
    for agreement in ranks:
        agreement.record_all_joined()
    assert [agreement.after_step(True) for agreement in ranks] == [False, False]
    assert [agreement.after_step(True) for agreement in ranks] == [True, True]


def test_while_a_rank_has_joined_ranks_go_on_until_all_have() -> None:
    ranks = pair()
    ranks[0].record_join()
    assert not any(ranks[1].after_step(True) for _ in range(9))
    ranks[1].record_join()
    for agreement in ranks:
        agreement.record_all_joined()
    assert [agreement.after_step(False) for agreement in ranks] == [False, False]
    assert [agreement.after_step(False) for agreement in ranks] == [True, True]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("how", ["is lost", "leaves"])
def test_ranks_do_not_wait_for_lost_rank(how: str) -> None:
    star = Star(2, 0)
    agreement = Agreement(star.ends[0], 0, 2)  # rank 1 never answers
    done = threading.Event()

    def run() -> None:
        for _ in range(10):
            assert not agreement.after_step(True)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert not done.wait(0.1)
    if how == "leaves":
        star.ends[1].send(0, "stop.gone", None)
    for handler in star.ends[0].lost if how == "is lost" else ():
        handler(1, "its connection closed")
    thread.join()
    star.close()
    assert done.is_set()
