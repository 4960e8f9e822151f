"""Interrupts of a function at every point at which a signal handler can run."""

from __future__ import annotations

import dis
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

_ENDS_S = 20.0


class Interrupted(BaseException):
    """Exception of a signal handler."""


def each_interrupt() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield functions, of which each makes the call that it gets and interrupts it, at a later point
    than the one before. The last one finds no point and does not interrupt.
    """
    interrupted = True
    at = -1

    def interrupt(call: Callable[[], object]) -> None:
        nonlocal interrupted
        interrupted = call_interrupted(call, at)

    while interrupted:
        at += 1
        interrupted = False
        yield interrupt
    assert at > 0


def call_interrupted(function: Callable[[], object], at: int) -> bool:
    """Call a function that an exception interrupts at point number ``at`` of those at which a signal
    handler can run; return whether there are more than that.
    """
    count = itertools.count()
    before: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_globals.get("__name__") == "_weakrefset":
            return None  # exceptions of destructors are only printed
        frame.f_trace_opcodes = True
        if event == "call" and frame.f_back is not None:
            before.pop(frame.f_back, None)  # its call does not end with a check for signals
        elif event == "opcode":
            last = before.get(frame)
            before[frame] = frame.f_lasti
            if (
                last is not None
                and _handles(frame.f_code, last, frame.f_lasti)
                and next(count) == at
            ):
                raise Interrupted
        return trace

    gc.disable()  # exceptions of its callbacks are only printed
    sys.settrace(trace)
    try:
        function()
    except BaseException as error:
        # Python's own code may replace an interrupt: a condition releases its lock twice.
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, Interrupted):
            cause = cause.__context__
        if cause is None:
            raise
        return True
    finally:
        sys.settrace(None)
        gc.enable()
    return next(count) > at


def ends(*calls: Callable[[], object]) -> None:
    """Assert that the calls, one after another in another thread, end."""

    answers: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            for call in calls:
                call()
        except BaseException as error:  # noqa: BLE001 - raised below
            answers.put(error)
        else:
            answers.put(None)

    threading.Thread(target=run, daemon=True).start()
    error = answers.get(timeout=_ENDS_S)
    if error is not None:
        raise error


def _handles(code: CodeType, last: int, following: int) -> bool:
    """Return whether Python checks for signals at the end of the instruction ``last``, and the
    exception of a handler is caught where one of the instruction ``following`` is.
    """
    if code not in _CHECKS:
        _CHECKS[code] = {
            each.offset
            for each in dis.get_instructions(code)
            if each.opname.startswith(("CALL", "RESUME", "JUMP_BACKWARD"))
        }
        _HANDLERS[code] = [
            (entry.start, entry.end, entry.target)
            for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        ]
    return last in _CHECKS[code] and _handler(code, last) == _handler(code, following)


def _handler(code: CodeType, offset: int) -> int | None:
    return next((to for start, end, to in _HANDLERS[code] if start <= offset < end), None)


_CHECKS: dict[CodeType, set[int]] = {}
_HANDLERS: dict[CodeType, list[tuple[int, int, int]]] = {}
