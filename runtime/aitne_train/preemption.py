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

from aitne_train.context import current
from aitne_train.flag import Flag
from aitne_train.left_calls import collective
from aitne_train.types import Kind, Request

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

    def on(self, kind: str, handler: Any) -> None:
        """Register a message handler; see ``Control.on``."""

    def on_lost(self, handler: Any) -> None:
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
        link.on("stop.propose", self._proposed)
        link.on("stop.commit", self._committed)
        link.on("stop.off", lambda _sender, _payload: self._give_up())
        link.on_lost(lambda _rank, _why: self._give_up())
        if rank == 0:
            link.on("stop.gone", lambda _sender, _payload: link.broadcast("stop.off", None))
            link.on("stop.wanted", lambda _sender, _payload: self._propose(None))
            link.on("stop.promise", self._answered)
            link.on("stop.here", self._came)
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

    def joins(self) -> None:
        """Record that this rank has called ``join`` and makes no steps until all others have called
        it too.
        """
        with self._lock:
            self._ended = (self._ended[0], _JOINS)

    def joined(self) -> None:
        """Record that all ranks have called ``join`` and now start the same step."""
        with self._lock:
            self._ended = (self._ended[0] + 1, 0)

    def leave(self) -> None:
        """Report that this rank ends its training loop and takes part in no further agreement."""
        self._link.send(0, "stop.gone", None)

    def _proposed(self, _sender: int, proposal: list[int]) -> None:
        step = _place(proposal)
        with self._lock:
            if self._last is not None:
                return
            position = self._ended
            promises = position < step
            if promises:
                self._promised = step
        self._link.send(0, "stop.promise", [step, promises, position])

    def _committed(self, _sender: int, step: list[int]) -> None:
        with self._lock:
            self._last = _place(step)
        self._changed.set()

    def _give_up(self) -> None:
        with self._lock:
            self._broken = True
        self._changed.set()

    # At rank 0

    def _propose(self, position: Place | None) -> None:
        with self._lock:
            if self._last is not None or (self._proposal > (0, 0) and position is None):
                return
            joins, steps = max(self._ended, position or self._ended)
            self._proposal = (joins + 1, _AHEAD) if steps == _JOINS else (joins, steps + _AHEAD)
            self._promises = set()
            step = self._proposal
        self._link.broadcast("stop.propose", step)

    def _answered(self, sender: int, payload: list[Any]) -> None:
        step, promises, position = _place(payload[0]), payload[1], _place(payload[2])
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
            self._propose(position)

    def _came(self, sender: int, _payload: Any) -> None:
        """Send the current proposal again to a rank that has just registered its handlers, because
        it may have missed the proposal.
        """
        with self._lock:
            step = self._proposal
        if step > (0, 0) and sender:
            self._link.send(sender, "stop.propose", step)


def _place(sent: list[int]) -> Place:
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
        self._context = current()
        world = self._context.world
        self._agreement = Agreement(self._context.control, world.rank, world.size)
        self._context.engine.on_join(self._agreement.joins, self._agreement.joined)
        self._context.on_close(self._agreement.leave)
        self.signalled = False
        """Whether this rank has received a signal to end. Other ranks may receive theirs earlier or
        later."""
        self._before = {number: signal.signal(number, self._flag) for number in signals}
        _alive.add(self)

    @collective("after_step()")
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

    def _flag(self, _number: int, _frame: FrameType | None) -> None:
        self.signalled = True

    def _after_fork(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def after_fork(all_of_them: Iterable[Preemption]) -> None:
    """Restore the previous signal handlers in a forked child process, such as a worker of a pool,
    so that a signal from its parent ends it.
    """
    for preemption in all_of_them:
        preemption._after_fork()


_alive: weakref.WeakSet[Preemption] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: after_fork(list(_alive)))
