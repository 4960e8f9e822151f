"""End of a training run after a signal, between two steps and after the same step on every rank.

    stop = Preemption()                       # SIGTERM and SIGUSR1 set a flag from now on
    for step in range(first, last):
        train(...)
        if stop.after_step():
            checkpoints.save(state, step)
            stop.leave()                      # exit status 75: resume later

Without a signal, ``after_step`` only compares two numbers. After a signal, rank 0 proposes as the
last step one that, as far as it knows, no rank has ended yet. A rank that has not ended this step
promises to wait at its end, and reports the promise. A rank that has ended it reports its own step,
and rank 0 proposes a later one. When all ranks have promised, the step is final. Separate threads
exchange these messages, so a rank that waits in a collective answers too. Waiting for the agreement
causes no deadlock, because a rank only waits at a step that the others have still to reach.

Ranks that have different numbers of steps wait for each other in ``join()``, so steps are counted
from the last ``join()`` of all ranks. While a rank waits in ``join()``, rank 0 proposes a step after
it. A rank that calls ``join()`` after promising a later step cannot keep the promise: then ``leave``
raises an error on the others.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Any, NoReturn, Protocol

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import Kind, Request
from aitne_train.context import require_context
from aitne_train.interruptible_event import Flag

EX_TEMPFAIL = 75
"""Exit code of a program that was asked to end, has saved its state and can be resumed
(``EX_TEMPFAIL`` of sysexits.h)."""

Place = tuple[int, int]
"""Position of a rank in its steps: how many times all ranks have joined, and the number of steps
since then."""

_NEVER: Place = (sys.maxsize, 0)
_JOINS = sys.maxsize
# As a number of steps: all steps before the next join.
_AHEAD = 2
# Ranks that exchange in every step are at most one apart: two from here is rarely refused.


class AgreementConnections(Protocol):
    """Interface of the control connections that ``Agreement`` uses; ``Control`` implements it."""

    def register_handler(self, kind: str, handler: Any) -> None:
        """Register a message handler; see ``Control.on``."""

    def register_lost_handler(self, handler: Any) -> None:
        """Register a handler for lost ranks; see ``Control.on_lost``."""

    def send(self, rank: int, kind: str, payload: Any) -> None:
        """Send a message to one rank; see ``Control.send``."""

    def broadcast(self, kind: str, payload: Any) -> None:
        """Send a message to all ranks; see ``Control.broadcast``."""


class Agreement:
    """Agreement of all ranks, after a signal to end, on the step after which all of them stop; this
    object is one rank's part in it.
    """

    def __init__(self, link: AgreementConnections, rank: int, size: int) -> None:
        self._link = link
        self._rank = rank
        self._size = size
        self._lock = threading.Lock()
        self._changed = Flag()
        self._ended: Place = (0, 0)
        self._promised = _NEVER
        self._last: Place | None = None
        self._broken = False
        self._proposal: Place = (0, 0)
        self._promises: set[int] = set()
        link.register_handler("stop.propose", self._on_proposal)
        link.register_handler("stop.commit", self._on_commit)
        link.register_handler("stop.off", lambda _sender, _payload: self._stop_agreeing())
        link.register_lost_handler(lambda _rank, _why: self._stop_agreeing())
        if rank == 0:
            link.register_handler(
                "stop.gone", lambda _sender, _payload: link.broadcast("stop.off", None)
            )
            link.register_handler("stop.wanted", lambda _sender, _payload: self._propose_step(None))
            link.register_handler("stop.promise", self._on_answer)
            link.register_handler("stop.here", self._on_arrival)
        link.send(0, "stop.here", None)

    def after_step(self, requested: bool) -> bool:
        """Record the end of a step; return whether it was the last one. ``requested`` states
        whether this rank has received a signal to end. Waits only while the ranks are agreeing.

        If the connection to a rank is lost or a rank shuts down, the agreement is abandoned: the
        result is False, and the next exchange raises an error.
        """
        if requested and self._promised == _NEVER:
            # Repeated, because rank 0 may not have been listening yet.
            self._link.send(0, "stop.wanted", None)
        with self._lock:
            self._ended = (self._ended[0], self._ended[1] + 1)
        while True:
            self._changed.clear()
            with self._lock:
                if self._ended < self._promised or self._last is not None or self._broken:
                    return self._last is not None and self._ended >= self._last
            self._changed.wait()

    def record_join(self) -> None:
        """Record that this rank has called ``join`` and makes no steps until all others have called
        it too.
        """
        with self._lock:
            self._ended = (self._ended[0], _JOINS)

    def record_all_joined(self) -> None:
        """Record that all ranks have called ``join`` and now start the same step."""
        with self._lock:
            self._ended = (self._ended[0] + 1, 0)

    def leave(self) -> None:
        """Report that this rank ends its training loop and takes part in no further agreement."""
        self._link.send(0, "stop.gone", None)

    def _on_proposal(self, _sender: int, proposal: list[int]) -> None:
        step = _parse_position(proposal)
        with self._lock:
            if self._last is not None:
                return
            position = self._ended
            promises = position < step
            if promises:
                self._promised = step
        self._link.send(0, "stop.promise", [step, promises, position])

    def _on_commit(self, _sender: int, step: list[int]) -> None:
        with self._lock:
            self._last = _parse_position(step)
        self._changed.set()

    def _stop_agreeing(self) -> None:
        with self._lock:
            self._broken = True
        self._changed.set()

    # At rank 0

    def _propose_step(self, position: Place | None) -> None:
        with self._lock:
            if self._last is not None or (self._proposal > (0, 0) and position is None):
                return
            joins, steps = max(self._ended, position or self._ended)
            self._proposal = (joins + 1, _AHEAD) if steps == _JOINS else (joins, steps + _AHEAD)
            self._promises = set()
            step = self._proposal
        self._link.broadcast("stop.propose", step)

    def _on_answer(self, sender: int, payload: list[Any]) -> None:
        step, promises, position = (
            _parse_position(payload[0]),
            payload[1],
            _parse_position(payload[2]),
        )
        with self._lock:
            # Ranks that were notified of a broken agreement have continued.
            if step != self._proposal or self._last is not None or self._broken:
                return
            if promises:
                self._promises.add(sender)
                if len(self._promises) < self._size:
                    return
        if promises:
            self._link.broadcast("stop.commit", step)
        else:
            self._propose_step(position)

    def _on_arrival(self, sender: int, _payload: Any) -> None:
        """Send the current proposal again to a rank that has just registered its handlers, because
        it may have missed the proposal.
        """
        with self._lock:
            step = self._proposal
        if step > (0, 0) and sender:
            self._link.send(sender, "stop.propose", step)


def _parse_position(sent: list[int]) -> Place:
    joins, steps = sent
    return joins, steps


class Preemption:
    """Handler of the signals by which a scheduler or user asks the program to end; all ranks stop
    after the same step.

    Every rank creates one on its main thread after ``init``; signals are recorded from then on.

    ``signals``: the signals to handle. Schedulers send SIGTERM; SIGUSR1 is what users can request
    to be sent earlier.
    """

    def __init__(
        self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGUSR1)
    ) -> None:
        self._context = require_context()
        world = self._context.world
        self._agreement = Agreement(self._context.control, world.rank, world.size)
        self._context.engine.register_join_callbacks(
            self._agreement.record_join, self._agreement.record_all_joined
        )
        self._context.on_close(self._agreement.leave)
        self.signalled = False
        """Whether this rank has received a signal to end. Other ranks may receive theirs earlier or
        later."""
        self._before = {number: signal.signal(number, self._on_signal) for number in signals}
        _alive.add(self)

    @mark_collective("after_step()")
    def after_step(self) -> bool:
        """Record the end of a step; return True if it was the last one.

        Every rank must call this after each of its steps; all get True after the same step.
        """
        return self._agreement.after_step(self.signalled)

    def leave(self) -> NoReturn:
        """Wait until every rank has saved its state and called this, then exit with status 75.

        Raises:
            HorovodInternalError: the connection to a rank is lost.
            SystemExit: in all other cases.
        """
        self._context.engine.run(Request(Kind.BARRIER, "aitne.preemption", ()))
        sys.exit(EX_TEMPFAIL)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.signalled = True

    def _after_fork(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def restore_handlers_after_fork(all_of_them: Iterable[Preemption]) -> None:
    """Restore the previous signal handlers in a forked child process, such as a worker of a pool,
    so that a signal from its parent ends it.
    """
    for preemption in all_of_them:
        preemption._after_fork()


_alive: weakref.WeakSet[Preemption] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: restore_handlers_after_fork(list(_alive)))
