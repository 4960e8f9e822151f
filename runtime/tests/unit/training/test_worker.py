"""The thread that exchanges while backward goes on."""

from __future__ import annotations

import threading

import pytest

from aitne_train.exchange._queue_worker import Worker


def test_jobs_are_done_in_order_when_drain_returns() -> None:
    done: list[int] = []
    worker: Worker[int] = Worker(done.append, "test")
    for round_ in range(200):
        for each in range(5):
            worker.put(round_ * 5 + each)
        worker.drain()
        assert len(done) == (round_ + 1) * 5
    assert done == list(range(1000))
    worker.close()


def test_drain_raises_what_a_job_raised_and_those_after_it_are_not_run() -> None:
    done: list[int] = []

    def run(job: int) -> None:
        if job == 1:
            raise ValueError("one")
        done.append(job)

    worker = Worker(run, "test")
    for each in range(4):
        worker.put(each)
    with pytest.raises(ValueError, match="one"):
        worker.drain()
    assert done == [0]
    worker.put(5)
    worker.drain()
    assert done == [0, 5]
    worker.close()


def test_drain_says_how_long_it_had_to_wait() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(job: int) -> None:
        begun.set()
        go_on.wait()

    worker = Worker(run, "test")
    worker.put(1)
    begun.wait()
    threading.Timer(0.05, go_on.set).start()
    waited = worker.drain()
    assert waited is not None
    assert waited[1] > waited[0]
    worker.close()
