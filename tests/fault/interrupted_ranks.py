"""Ranks whose collectives are interrupted at random moments; ``tests.fault.interrupts`` starts them.

Every value that a collective returns is compared with the one that it must have. Values contain the
number of the step and of the rank, so that a value of another call is recognized.
"""

from __future__ import annotations

import dis
import faulthandler
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

import aitne_train as hvd
from aitne_train import abandoned_collectives
from aitne_train.errors import HorovodInternalError
from aitne_train.exchange import _gradient_collection
from tests.support.rank import Rank

HANG_S = 60.0
"""Seconds without progress after which a rank counts as hung: it prints its stacks and ends."""
_STEPS = 400
_ENTRIES = {
    ("abandoned_collectives.py", "call"),
    ("_autograd_functions.py", "hook"),
    ("basics.py", "init"),
    ("basics.py", "shutdown"),
}
"""File and name of the functions in which a call of a program begins."""


class TimeLimitError(Exception):
    """Error that the handler of SIGALRM raises."""


INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, TimeLimitError)


@dataclass
class RankReport:
    """Report of one rank on its calls."""

    interrupts: Counter[str] = field(default_factory=Counter)
    """Interrupts that have ended a call, by kind of call and class of the exception."""
    values: int = 0
    """Values that were compared."""
    wrong: list[str] = field(default_factory=list)
    """Values that were not the right ones."""
    unbroken: list[str] = field(default_factory=list)
    """Calls that were left, and the next call did not say so."""
    errors: Counter[str] = field(default_factory=Counter)
    """Errors of the calls after that, by their first words."""
    survived: str = ""
    """The error of this rank after another one was killed."""
    others: list[RankReport] = field(default_factory=list)
    """The reports of all ranks from before one was killed."""


class Alarm:
    """Interrupt of this rank's main thread at a random moment inside a call of the runtime."""

    def __init__(self) -> None:
        self._random = random.Random()
        self._kind: type[BaseException] = KeyboardInterrupt
        self._twice = self._kill = False
        self.fired = False
        signal.signal(signal.SIGALRM, self._ring)
        signal.signal(signal.SIGINT, self._interrupt)

    def arm(self, rng: random.Random, *, kill: bool = False) -> None:
        """Let the interrupt come after a random time, most often a short one, and now and then a
        second one right after it; ``kill``: SIGKILL.
        """
        self._random, self.fired, self._kill = rng, False, kill
        self._twice = rng.random() < 0.2
        self._kind = rng.choice(INTERRUPTS)
        longest = 0.02 if kill else rng.choice((0.002, 0.02, 0.1))
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest))

    def disarm(self) -> None:
        """Let no interrupt come any more."""
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.fired = True
                return
            except INTERRUPTS:
                continue

    def _ring(self, _number: int, frame: FrameType | None) -> None:
        if self.fired:
            return
        if not _has_begun(frame):
            signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, 0.0005))
        elif self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._kind is KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            self._shoot()
            raise TimeLimitError

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if self.fired:
            return
        if not _has_begun(frame):
            signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, 0.0005))
            return
        self._shoot()
        raise KeyboardInterrupt

    def _shoot(self) -> None:
        self.fired = not self._twice
        if self._twice:
            self._twice = False
            signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, 0.0005))


def _has_begun(frame: FrameType | None) -> bool:
    """Return whether the interrupted code belongs to a call of the runtime that has begun. An
    interrupt before its first instruction is one of the program, which then leaves out a call.
    """
    while frame is not None:
        code = frame.f_code
        if (os.path.basename(code.co_filename), code.co_name) in _ENTRIES:
            # A backward pass that has begun an exchange is a call, too.
            in_backward = code.co_name == "hook" and abandoned_collectives.is_in_call()
            return in_backward or frame.f_lasti > _resumes(code)
        frame = frame.f_back
    return False


def _resumes(code: CodeType) -> int:
    """Return where the first instruction is at which a signal handler can run."""
    known = _RESUMES.get(code)
    if known is None:
        known = _RESUMES[code] = next(
            (each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), 0
        )
    return known


_RESUMES: dict[CodeType, int] = {}


class _Calls:
    """The calls of one rank, each with values of its own: ``number`` is the number of the call."""

    def __init__(self, me: Rank, report: RankReport, alarm: Alarm) -> None:
        self._rank, self._size = me.rank, me.size
        self._alarm = alarm
        self._report = report
        self.kinds: dict[str, Callable[[int], None]] = {
            name.removeprefix("call_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("call_")
        }
        self._set: Any = None
        self._model = torch.nn.Sequential(*(torch.nn.Linear(40, 40, bias=False) for _ in range(6)))
        self._optimizer: Any = None

    def begin(self) -> None:
        """Prepare a new connection of the ranks."""
        self._set = hvd.add_process_set(list(range(1, self._size)))
        if self._optimizer is None:
            self._optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(self._model.parameters(), lr=0.0)
            )

    def _value(self, number: int, rank: int | None = None) -> float:
        return number * 100.0 + (self._rank if rank is None else rank) + 1

    def _sum(self, number: int) -> float:
        return sum(self._value(number, rank) for rank in range(self._size))

    def _every(self, number: int) -> list[float]:
        return [self._value(number, rank) for rank in range(self._size)]

    def _own(self, number: int, length: int = 1) -> torch.Tensor:
        return torch.full((length,), self._value(number), dtype=torch.float64)

    def _compare(self, what: str, number: int, found: Any, right: Any) -> None:
        self._report.values += 1
        if found != right:
            self._report.wrong.append(
                f"rank {self._rank}, {what} {number}: {found} instead of {right}"
            )

    def call_allreduce(self, number: int) -> None:
        found = hvd.allreduce(self._own(number), op=hvd.Sum)
        self._compare("allreduce", number, found.tolist(), [self._sum(number)])

    def call_named_allreduce(self, number: int) -> None:
        found = hvd.allreduce_(self._own(number, 3000), name="loss", op=hvd.Sum)
        self._compare("named allreduce", number, set(found.tolist()), {self._sum(number)})

    def call_grouped(self, number: int) -> None:
        group = [self._own(number), self._own(number, 2)]
        found = hvd.grouped_allreduce(group, op=hvd.Sum)
        right = [[self._sum(number)], [self._sum(number)] * 2]
        self._compare("grouped", number, [each.tolist() for each in found], right)

    def call_asynchronous(self, number: int) -> None:
        handles = [hvd.allreduce_async(self._own(number + at), op=hvd.Sum) for at in range(3)]
        for at, handle in enumerate(handles):
            found = hvd.synchronize(handle)
            self._compare("asynchronous", number, found.tolist(), [self._sum(number + at)])

    def call_allgather(self, number: int) -> None:
        found = hvd.allgather(self._own(number))
        self._compare("allgather", number, found.tolist(), self._every(number))

    def call_broadcast(self, number: int) -> None:
        root = number % self._size
        found = hvd.broadcast(self._own(number), root)
        self._compare("broadcast", number, found.tolist(), [self._value(number, root)])

    def call_broadcast_object(self, number: int) -> None:
        root = number % self._size
        found = hvd.broadcast_object({"value": self._value(number)}, root)
        self._compare("broadcast_object", number, found, {"value": self._value(number, root)})

    def call_allgather_object(self, number: int) -> None:
        found = hvd.allgather_object(self._value(number))
        self._compare("allgather_object", number, found, self._every(number))

    def call_alltoall(self, number: int) -> None:
        sent = torch.tensor([self._value(number) + to / 1000 for to in range(self._size)])
        found, _ = hvd.alltoall(sent.double(), splits=torch.ones(self._size, dtype=torch.int32))
        right = [value + self._rank / 1000 for value in self._every(number)]
        rounded = [round(value, 3) for value in found.float().double().tolist()]
        expected = [round(value, 3) for value in torch.tensor(right).double().tolist()]
        self._compare("alltoall", number, rounded, expected)

    def call_reducescatter(self, number: int) -> None:
        found = hvd.reducescatter(self._own(number, self._size), op=hvd.Sum)
        self._compare("reducescatter", number, found.tolist(), [self._sum(number)])

    def call_barrier(self, number: int) -> None:
        hvd.barrier()

    def call_join(self, number: int) -> None:
        if self._rank != number % self._size:
            found = hvd.allreduce(self._own(number), op=hvd.Sum)
            right = self._sum(number) - self._value(number, number % self._size)
            self._compare("join", number, found.tolist(), [right])
        hvd.join()

    def call_process_set(self, number: int) -> None:
        if self._rank > 0:
            found = hvd.allreduce(self._own(number), op=hvd.Sum, process_set=self._set)
            right = self._sum(number) - self._value(number, 0)
            self._compare("process set", number, found.tolist(), [right])
        hvd.barrier()

    def call_optimizer(self, number: int) -> None:
        for parameter in self._model.parameters():
            parameter.grad = None
        self._optimizer.zero_grad()
        total: Any = sum(parameter.sum() for parameter in self._model.parameters())
        (total * (self._value(number % 1000) / 1024)).backward()
        self._optimizer.step()
        right = self._sum(number % 1000) / 1024 / self._size
        for parameter in self._model.parameters():
            found = parameter.grad
            worst = None if found is None else float((found - right).abs().max())
            fits = worst is not None and worst <= 1e-4 * right
            self._compare("optimizer", number, "right" if fits else worst, "right")

    def call_elastic(self, number: int) -> None:
        """Train in an elastic loop, which catches an interrupt and heals itself."""
        state = hvd.elastic.TorchState(step=0, total=0.0)

        @hvd.elastic.run
        def train(state: Any) -> None:
            while state.step < 6:
                at = number + state.step
                if state.step == 5:  # a rank that has ended would not come back
                    self._alarm.disarm()
                try:
                    found = hvd.allreduce(self._own(at), op=hvd.Sum)
                    self._compare("elastic", at, found.tolist(), [self._sum(at)])
                    state.total += found.item()
                    state.step += 1
                    state.commit()
                except INTERRUPTS as error:
                    self._report.interrupts[f"elastic, {type(error).__name__}"] += 1

        while True:
            try:
                train(state)
                break
            except BaseException as error:
                interrupt = _find_interrupt(error)
                if interrupt is None:
                    raise
                self._report.interrupts[f"elastic, {type(interrupt).__name__}"] += 1
        right = sum(self._sum(number + step) for step in range(6))
        self._compare("elastic total", number, state.total, right)


def work(me: Rank, seed: int, count: int, kill: bool) -> RankReport:
    """Run episodes until ``count`` have ended: calls that are interrupted, and a new connection.

    With ``kill``, the last episode ends by SIGKILL of a rank.
    """
    report = RankReport()
    alarm = Alarm()
    calls = _Calls(me, report, alarm)
    # Buckets are sent during backward, also if there are fewer processors than ranks.
    _gradient_collection._PROCESSORS_TO_OVERLAP = 1
    own = random.Random(f"{seed} {me.rank}")
    for turn in itertools.count():
        episode = _heal(me, calls, alarm, own, turn)
        last = episode >= count
        if last and not kill:
            break
        if last:
            report.others = hvd.allgather_object(report)
        _episode(me, seed, episode, calls, alarm, own, report, last)
        if last:
            break
    faulthandler.cancel_dump_traceback_later()
    hvd.shutdown()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return report


def _find_interrupt(error: BaseException) -> BaseException | None:
    """Return the interrupt that ended a call; None for another error.

    Python's own code may replace an interrupt: a condition releases its lock twice (RuntimeError), `Thread.start`
    misses the thread that it has started (KeyError).
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, INTERRUPTS):
        found = found.__context__
    return found


def _watch() -> None:
    faulthandler.dump_traceback_later(HANG_S, exit=True)


def _heal(me: Rank, calls: _Calls, alarm: Alarm, own: random.Random, episode: int) -> int:
    """Connect the ranks again, which is interrupted now and then, too; return the number of the
    episode, which is equal on all ranks.
    """
    while True:
        _watch()
        try:
            if own.random() < 0.1:
                alarm.arm(own)
            hvd.shutdown()
            hvd.init()
            alarm.disarm()
            agreed = hvd.allreduce(torch.tensor([episode]), op=hvd.Max)
            calls.begin()
            return int(agreed.item())
        except HorovodInternalError:
            alarm.disarm()
        except BaseException as error:
            if _find_interrupt(error) is None:
                raise
            alarm.disarm()


def _episode(
    me: Rank,
    seed: int,
    episode: int,
    calls: _Calls,
    alarm: Alarm,
    own: random.Random,
    report: RankReport,
    kill: bool,
) -> None:
    """Make calls of one kind until one is interrupted on the rank whose turn it is, or killed; then
    make the next call, which must fail on every rank.
    """
    _watch()
    shared = random.Random(f"{seed} {episode}")
    kind = shared.choice(sorted(calls.kinds))
    victims = {shared.randrange(me.size)}
    if shared.random() < 0.2:
        victims.add(shared.randrange(me.size))
    late = shared.randrange(me.size)
    if kill and kind == "elastic":
        kind = "allreduce"
    if me.rank in victims and not (kill and me.rank != min(victims)):
        alarm.arm(own, kill=kill)
    left = ""
    try:
        for step in range(_STEPS):
            if me.rank == late and own.random() < 0.3:
                time.sleep(own.uniform(0, 0.004))
            calls.kinds[kind](episode * 1000 + step * 10)
            if kind == "elastic":
                return
    except HorovodInternalError as error:
        _count(report, kind, error, kill)
    except BaseException as error:
        interrupt = _find_interrupt(error)
        if interrupt is None:
            raise
        name = type(interrupt).__name__
        report.interrupts[f"{kind}, {name}"] += 1
        left = f"rank {me.rank}, episode {episode}, {kind}, {name}"
    alarm.disarm()
    for _ in range(2):
        try:
            calls.call_allreduce(episode * 1000 + 9)
        except HorovodInternalError as error:
            _count(report, kind, error, kill)
        else:
            if left:  # otherwise every step has ended before the interrupt
                report.unbroken.append(left)


def _count(report: RankReport, kind: str, error: HorovodInternalError, kill: bool) -> None:
    text = str(error)
    for words in ("was left by rank", "has been shut down by rank", "is gone"):
        if words in text:
            report.errors[words] += 1
            break
    else:
        report.errors[f"{kind}: {text}"] += 1
    if kill and not report.survived:
        report.survived = text
