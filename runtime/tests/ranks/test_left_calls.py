"""Calls that an exception of a signal handler ends: every rank is told, and no value is wrong."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import torch
from runtime.tests.ranks.optimizer_work import loss_of, network, share, wrapped

import aitne_train as hvd
from aitne_train import abandoned_collectives, context
from aitne_train.errors import HorovodInternalError
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS

HEALS = "call hvd.shutdown() and hvd.init()."


class LimitError(TimeoutError):
    """Error that the handler of SIGALRM raises."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise LimitError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ones(value: float = 1.0) -> torch.Tensor:
    return torch.tensor([value])


def heal() -> None:
    hvd.shutdown()
    hvd.init()


def message(call: Callable[[], Any]) -> str:
    try:
        found = call()
    except HorovodInternalError as error:
        return str(error)
    raise AssertionError(f"the call returned {found}")


def leave(me: Rank, name: str, call: Callable[[], Any]) -> None:
    """Let rank 0 leave a call for which it waits; the others learn when it has."""
    if me.rank == 0:
        with pytest.raises(LimitError), time_limit(0.2):
            call()
        me.store.set(f"{me.call}-{name}", b"1")
    else:
        me.store.get(f"{me.call}-{name}", 30)


def left_allreduce(me: Rank, name: str | None) -> tuple[str, str, float]:
    """Leave an allreduce, go on, and go on after the ranks have connected again."""
    hvd.init()
    try:
        leave(me, "sum", lambda: hvd.allreduce(ones(1000.0), name=name, op=hvd.Sum))
        first = message(lambda: hvd.allreduce(ones(), name=name, op=hvd.Sum))
        second = message(lambda: hvd.allreduce(ones(), name=name, op=hvd.Sum))
        heal()
        return first, second, hvd.allreduce(ones(), name=name, op=hvd.Sum).item()
    finally:
        hvd.shutdown()


@pytest.mark.parametrize("name", [None, "loss"])
@pytest.mark.parametrize("transport", ["shm", "torch_pg"])
def test_a_left_collective_never_gives_a_wrong_number(
    pool: Pool, transport: str, name: str | None
) -> None:
    environ = {"AITNE_TRANSPORT": transport}
    for first, second, healed in pool.run(left_allreduce, 2, name, environ=environ):
        assert first.startswith(
            f"allreduce '{name or 'noname.0'}' was left by rank 0 (LimitError, test_left_calls.py:"
        )
        assert first.endswith(HEALS)
        assert second == first
        assert healed == 2.0


def interrupted_twice(me: Rank) -> str:
    """Interrupt a call of rank 0 before it is marked, and again while that is handled; return the
    message of the next call.
    """
    hvd.init()
    if me.rank == 0:
        marks = abandoned_collectives._Call
        interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]

        def mark(*arguments: Any) -> Any:
            if interrupts:
                raise interrupts.pop()
            return marks(*arguments)

        abandoned_collectives._Call = mark  # type: ignore[assignment, misc]
        with pytest.raises(KeyboardInterrupt):
            hvd.allreduce(ones(1000.0), op=hvd.Sum)
    try:
        return message(lambda: hvd.allreduce(ones(), op=hvd.Sum))
    finally:
        if me.rank == 0:
            abandoned_collectives._Call = marks  # type: ignore[misc]
        hvd.shutdown()


def test_a_second_interrupt_hides_no_first_one(pool: Pool) -> None:
    for said in pool.run(interrupted_twice, 2, environ={"AITNE_TRANSPORT": "shm"}):
        assert "was left by rank 0 (KeyboardInterrupt" in said


def left_calls(me: Rank) -> dict[str, tuple[str, float]]:
    """Leave calls of many kinds; return the message of the next call, and the sum after ``init``."""
    hvd.init()
    model = network()
    optimizer = wrapped(model)
    loss_of(model, share(0, me.rank, me.size)).backward()

    def second_half() -> None:
        # The other rank takes part in the first broadcast of broadcast_object.
        hvd.broadcast_object("x", 0, name="object")

    def of_set() -> None:
        both = hvd.add_process_set([0, 1])
        hvd.barrier(process_set=both)

    kinds: dict[str, Callable[[], Any]] = {
        "join": hvd.join,
        "barrier": hvd.barrier,
        "grouped": lambda: hvd.grouped_allreduce([ones(), ones()]),
        "synchronize": lambda: hvd.synchronize(hvd.allreduce_async(ones(), name="later")),
        "object": second_half,
        "add_process_set": of_set,
        "step": optimizer.step,
        "sync": lambda: hvd.elastic.TorchState(model=model, epoch=0).sync(),
    }
    found = {}
    try:
        for name, call in kinds.items():
            if name == "object" and me.rank:
                hvd.broadcast_(torch.zeros(1, dtype=torch.int64), 0, name="object.sz")
            leave(me, name, call)
            said = message(lambda: hvd.allreduce(ones(), op=hvd.Sum))
            heal()
            found[name] = (said, hvd.allreduce(ones(), op=hvd.Sum).item())
    finally:
        hvd.shutdown()
    return found


def test_every_kind_of_call_that_is_left_breaks_the_run(pool: Pool) -> None:
    environ = {"AITNE_TRANSPORT": "shm", "HOROVOD_DYNAMIC_PROCESS_SETS": "1"}
    first, second = pool.run(left_calls, 2, environ=environ)
    assert first == second
    named = {
        "join": "join 'noname.0'",
        "barrier": "barrier 'noname.0'",
        "grouped": "allreduce 'noname.1'",
        "synchronize": "allreduce 'later'",
        "object": "broadcast 'object.t'",
        "add_process_set": "add_process_set 'noname.0'",
        "step": "channel 'optimizer.0.0'",
        "sync": "broadcast '",
    }
    for name, (said, healed) in first.items():
        assert said.startswith(named[name])
        assert " was left by rank 0 (LimitError, test_left_calls.py:" in said
        assert healed == 2.0


def left_step(me: Rank, in_backward: bool) -> tuple[str, float]:
    """Leave the second step: in backward, after a bucket was sent, or in its exchange."""
    hvd.init()
    try:
        model = network()
        optimizer = wrapped(model)

        def step(number: int) -> None:
            loss_of(model, share(number, me.rank, me.size)).backward()
            optimizer.step()
            optimizer.zero_grad()

        step(0)
        if not in_backward:
            leave(me, "step", lambda: step(1))
        elif me.rank == 0:

            def interrupt(_: torch.Tensor) -> None:
                raise LimitError

            # The gradient of the first parameter is the last one that backward computes.
            hook = next(model.parameters()).register_hook(interrupt)
            with pytest.raises(LimitError):
                step(1)
            hook.remove()
        else:
            message(lambda: step(1))
        said = message(lambda: hvd.allreduce(ones()))
        heal()
        model.zero_grad()
        step(2)
        return said, hvd.allreduce(ones(), op=hvd.Sum).item()
    finally:
        hvd.shutdown()


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_step_that_is_left_breaks_the_run_and_the_optimizer_heals(
    pool: Pool, in_backward: bool
) -> None:
    environ = {"AITNE_TRANSPORT": "shm", "HOROVOD_FUSION_THRESHOLD": "64"}
    name = "backward()" if in_backward else "optimizer.step()"
    for said, healed in pool.run(left_step, 2, in_backward, environ=environ):
        assert said.startswith(f"{name} was left by rank 0 (")
        assert said.endswith(HEALS)
        assert healed == 2.0


def elastic(me: Rank) -> tuple[list[float], int]:
    """Catch the time limit of a step in an elastic loop, which goes back to the last commit."""
    hvd.init()
    state = hvd.elastic.TorchState(step=0, sums=[])
    left = [False]

    @hvd.elastic.run
    def train(state: Any) -> None:
        while state.step < 3:
            if state.step == 1 and not left[0]:
                left[0] = True
                leave(me, "elastic", lambda: hvd.allreduce(ones(1000.0), op=hvd.Sum))
            state.sums = [*state.sums, hvd.allreduce(ones(state.step), op=hvd.Sum).item()]
            state.step += 1
            state.commit()

    try:
        train(state)
        return state.sums, state.step
    finally:
        hvd.shutdown()


def test_elastic_training_heals_a_left_call(pool: Pool) -> None:
    for sums, step in pool.run(elastic, 2, environ={"HOROVOD_ELASTIC": "1"}):
        assert (sums, step) == ([0.0, 2.0, 4.0], 3)


def left_connection(me: Rank) -> tuple[str, float]:
    """Leave the first collective of two ranks, which connects them, while the third is late."""
    hvd.init()
    try:
        if me.rank == 0:
            with pytest.raises(LimitError), time_limit(0.2):
                hvd.barrier()
            me.store.set(f"{me.call}-left", b"1")
        elif me.rank == 1:
            said = message(hvd.barrier)
        else:
            me.store.get(f"{me.call}-left", 30)
        said = message(hvd.barrier)
        heal()
        return said, hvd.allreduce(ones(), op=hvd.Sum).item()
    finally:
        hvd.shutdown()


def test_ranks_that_already_wait_are_told(pool: Pool) -> None:
    for said, healed in pool.run(left_connection, 3):
        assert said.startswith("barrier 'noname.0' was left by rank 0 (LimitError, ")
        assert healed == 3.0


def refused(me: Rank) -> float:
    """Catch an error that a call raises itself, and go on."""
    hvd.init()
    try:
        with pytest.raises(ValueError, match="is not supported"):
            hvd.allreduce(torch.tensor([True]), op=hvd.Sum)
        return hvd.allreduce(ones(), op=hvd.Sum).item()
    finally:
        hvd.shutdown()


def test_an_error_of_the_call_itself_breaks_nothing(pool: Pool) -> None:
    assert pool.run(refused, 2) == [2.0, 2.0]


def interrupt_at_return(name: str) -> None:
    """Let the next return of a function of the runtime raise KeyboardInterrupt in its place, as a
    signal does that arrives at this moment.
    """

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "return" and frame.f_code.co_name == name and module.startswith("aitne_train."):
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)


def interrupted_starts(me: Rank) -> dict[str, float]:
    """Interrupt ``init`` and ``shutdown`` of rank 1, keep the exceptions as IPython does, and
    return the sums after the next ``init``.
    """
    kept, sums = [], {}
    for name in (
        "_connect_to_rank_0",
        "connect_ranks",
        "_number_nodes",
        "_open_context",
        "replace_context",
    ):
        if name == "replace_context":
            hvd.init()
        if me.rank == 1:
            interrupt_at_return(name)
            try:
                hvd.shutdown() if name == "replace_context" else hvd.init()
            except KeyboardInterrupt as error:
                kept.append(error)
        hvd.shutdown()
        while name not in sums:
            try:
                hvd.init()
                sums[name] = hvd.allreduce(ones(), op=hvd.Sum).item()
            except HorovodInternalError:  # rank 0 is told of the interrupt
                pass
            finally:
                hvd.shutdown()
    assert len(kept) == (5 if me.rank == 1 else 0)
    return sums


def test_an_interrupt_of_init_or_shutdown_leaves_no_connection(pool: Pool) -> None:
    for sums in pool.run(interrupted_starts, 2):
        assert sums == dict.fromkeys(sums, 2.0)
        assert len(sums) == 5


def interrupted_callback(_: Rank) -> tuple[list[str], float]:
    """Interrupt a callback of ``shutdown``; return which were called, and a sum after the next ``init``."""
    hvd.init()
    called: list[str] = []

    def interrupt() -> None:
        called.append("interrupted")
        raise KeyboardInterrupt

    for callback in (lambda: called.append("first"), interrupt, lambda: called.append("last")):
        context.require_context().on_close(callback)
    with contextlib.suppress(KeyboardInterrupt):
        hvd.shutdown()
    hvd.init()
    total = hvd.allreduce(ones(), op=hvd.Sum).item()
    hvd.shutdown()
    return called, total


def test_an_interrupt_of_shutdown_skips_no_callback(pool: Pool) -> None:
    expected = (["last", "interrupted", "first"], 2.0)
    assert pool.run(interrupted_callback, 2) == [expected, expected]
