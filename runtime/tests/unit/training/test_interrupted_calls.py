"""Parts of the runtime after an interrupt of a call, at each point at which one can arrive."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from aitne_train.collective_engine import CollectiveEngine
from aitne_train.collective_request import Kind, Request
from aitne_train.collective_summary import CollectiveSummary
from aitne_train.control_channel import Control
from aitne_train.errors import HorovodInternalError
from aitne_train.exchange._queue_worker import Worker
from aitne_train.execution import Execution
from aitne_train.interruptible_event import Flag
from aitne_train.joined_rank_proxy import JoinedRankProxy
from aitne_train.preemption import Agreement
from aitne_train.profiler import Profiler
from aitne_train.record_ring import RecordRing, create_recorder
from aitne_train.timeline import Timeline
from aitne_train.transport.base import TransportError
from tests.support.interrupts import Interrupted, each_interrupt, ends

Calls = dict[str, Callable[[], object]]


@pytest.mark.parametrize("name", ["set", "clear", "wait"])
def test_a_flag_works(name: str) -> None:
    for interrupt in each_interrupt():
        flag = Flag()
        calls: Calls = {"set": flag.set, "clear": flag.clear, "wait": partial(flag.wait, 0.001)}
        interrupt(calls[name])
        ends(flag.set, flag.wait)
        assert flag.is_set()
        ends(flag.clear)
        assert not flag.wait(0.0)


@pytest.mark.parametrize("name", ["start", "begin", "stop"])
def test_a_timeline_is_written(tmp_path: Path, name: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for interrupt in each_interrupt():
        timeline = Timeline()
        start = partial(timeline.start, first)
        if name != "start":
            start()
        begin = partial(timeline.begin_event, "row", "event")
        calls: Calls = {"start": start, "begin": begin, "stop": timeline.stop}
        interrupt(calls[name])
        ends(
            partial(timeline.start, second),
            partial(timeline.begin_event, "row", "later"),
            timeline.stop,
        )
        assert [each["name"] for each in json.loads(second.read_text())][-1] == "later"


@pytest.mark.parametrize("name", ["start", "take", "close"])
def test_a_profiler_takes_the_totals_of_others_and_ends(name: str) -> None:
    totals = CollectiveSummary().build_message(0) | {"queued": 0}
    for interrupt in each_interrupt():
        profiler = Profiler(RecordRing(), 0, (0, 0), lambda _: None, None)
        take = partial(profiler.store_totals, 1, {"totals": totals, "final": False})
        if name != "start":
            profiler.start()
        if name == "close":
            profiler.record_lost_rank(1)
        calls: Calls = {"start": profiler.start, "take": take, "close": profiler.close}
        interrupt(calls[name])
        ends(partial(profiler.record_lost_rank, 1), profiler.total_by_operation, profiler.close)


class OwnLink:
    """Control connections of a single rank, whose messages are handled at once."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def register_handler(self, kind: str, handler: Any) -> None:
        self.handlers[kind] = handler

    def register_lost_handler(self, handler: Any) -> None:
        pass

    def send(self, rank: int, kind: str, payload: Any) -> None:
        self.handlers[kind](rank, payload)

    def broadcast(self, kind: str, payload: Any) -> None:
        self.handlers[kind](0, payload)


def test_an_agreement_can_be_abandoned() -> None:
    for interrupt in each_interrupt():
        link = OwnLink()
        agreement = Agreement(link, 0, 1)
        interrupt(partial(agreement.after_step, True))
        ends(partial(link.broadcast, "stop.off", None), partial(agreement.after_step, False))


@pytest.mark.parametrize("name", ["take_part", "settle"])
def test_a_joined_rank_takes_part(name: str) -> None:
    for interrupt in each_interrupt():
        steps: list[int] = []
        proxy = JoinedRankProxy(lambda _reason, _news: None)
        proxy.register(0, steps.append)
        take_part = partial(proxy.queue_step, 0, 1)
        if name == "settle":
            take_part()
        calls: Calls = {"take_part": take_part, "settle": proxy.wait_for_steps}
        interrupt(calls[name])
        ends(partial(proxy.queue_step, 0, 2), partial(proxy.close, 20))


def test_a_worker_does_its_jobs() -> None:
    for interrupt in each_interrupt():
        done: list[int] = []
        worker: Worker[int] = Worker(done.append, "aitne-test")
        worker.put(1)
        interrupt(worker.drain)
        with suppress(Interrupted):  # of the job
            ends(worker.drain)
        ends(partial(worker.put, 2), worker.drain)
        assert done[-1] == 2
        worker.close()


class EmptyStore:
    """Store of a run in which nothing is stored."""

    def set(self, key: str, value: bytes) -> None:
        pass

    def get(self, key: str, _timeout_s: float) -> bytes:
        raise TimeoutError(key)


def test_a_failure_is_completed_by_the_next() -> None:
    request = Request(Kind.ALLREDUCE, "loss", (torch.ones(1),))
    for interrupt in each_interrupt():
        ours, theirs = socket.socketpair()
        control = Control(0, 2, {1: ours})
        execution = Execution(0, (0, 0), EmptyStore(), "run", create_recorder())
        engine = CollectiveEngine(control, execution)
        handle = engine.submit(request)
        fail = partial(engine.fail, "Rank 1 is gone")
        interrupt(fail)
        with pytest.raises(HorovodInternalError, match="Rank 1 is gone"):
            ends(fail, partial(engine.wait, handle))
        with pytest.raises(TransportError, match="Rank 1 is gone"):
            execution.connect_transport("later", 0, "cpu")
        ends(partial(engine.close, ""), control.close)
        theirs.close()
