"""Detection of collectives that a program leaves by an exception before they are complete, such as
by a ``KeyboardInterrupt`` or by the exception of a signal handler.

The other ranks still wait for such a call, and would take the next call of this rank for it. So the
run is broken: the next collective on every rank raises ``HorovodInternalError``.

A signal handler may raise at any point of a call, also while an earlier exception is handled. So a
call is marked from its beginning to its end, and a mark that is still there when the thread makes
its next call breaks the run, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_RUNTIME = (sys.stdlib_module_names - {"threading"}) | {"aitne_train", "numpy", "torch"}
"""Packages whose exceptions are answers of a call. ``threading`` raises none here, except if an
exception of a signal handler arrives in one of its functions."""
_LEAVE_S = 10.0
_NOTEBOOK = f"{os.sep}ipykernel_"


class BreakableRun(Protocol):
    """Run of this rank with the others, as this module needs it."""

    rank: int

    def fail_all(self, reason: str) -> None:
        """Make the next collective on every rank raise ``HorovodInternalError(reason)``."""
        ...


class _Call:
    """Outermost collective of a thread that has begun and not ended."""

    __slots__ = ("at", "caller", "error", "frame", "label", "request", "run")

    def __init__(self, label: str, frame: FrameType) -> None:
        self.label = label
        # Reset at the end: the frame refers to this object, too.
        self.frame: FrameType | None = frame
        self.caller = frame.f_back
        # The line is found when it is needed, because that takes long in a long function.
        self.at = -1 if self.caller is None else self.caller.f_lasti
        self.run = _run
        self.request: object = None
        self.error: BaseException | None = None


_run: BreakableRun | None = None
_calls: dict[int, _Call] = {}
"""By thread identifier: the call that the thread has begun and not ended."""


def set_run(run: BreakableRun | None) -> None:
    """Set the run that later calls belong to; None: there is none. Discards the mark of a call that
    this thread has left in the run before.
    """
    global _run
    _run = run
    me = threading.get_ident()
    mine = _calls.get(me)
    if mine is not None and not _is_running(mine):
        _calls.pop(me, None)


def mark_collective(label: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function in which ranks wait for each other: if an exception that the runtime has
    not raised itself leaves it, the run is broken.

    ``label`` names the function in the message, unless a request for a collective does.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            mine: _Call | None = None
            inside = False
            try:
                me = threading.get_ident()
                earlier = _calls.get(me)
                if earlier is not None:
                    inside = _is_running(earlier)
                    if inside:
                        return function(*args, **kwargs)
                    _break_run(earlier)
                _calls[me] = mine = _Call(label, sys._getframe())
                result = function(*args, **kwargs)
                _calls.pop(me, None)
                # From here on until the caller has the result, no signal handler can run.
                mine.frame = None
            except BaseException as error:
                if inside:
                    raise
                try:
                    _end_call(mine, label, error)
                except BaseException:  # noqa: BLE001 - of a signal handler that runs just now
                    _end_call(mine, label, error)
                raise
            return result

        return call

    return decorate


def _end_call(call: _Call | None, label: str, error: BaseException) -> None:
    """End the mark of a call that ``error`` ends, and break the run if the runtime has not raised
    it. ``call`` is None if the call had not been marked yet.
    """
    if call is None:
        call = _Call(label, sys._getframe(1))
    call.error = error
    if is_foreign(error):
        _break_run(call)
    _calls.pop(threading.get_ident(), None)
    call.frame = call.error = None


def mark_backward(label: str) -> Callable[[], object] | None:
    """Mark that the backward pass that this thread is in has begun an exchange with other ranks,
    unless the thread is in a call already. The caller must be a hook of that backward pass.

    Returns the function to call at the end of the backward pass; None: there is nothing to call.
    """
    me = threading.get_ident()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("aitne_train."):
        frame = frame.f_back
    if me in _calls or frame is None:  # frame: a thread of autograd's own, which has no signals
        return None
    _calls[me] = _Call(label, frame)
    return functools.partial(_calls.pop, me, None)


def break_if_left(label: str, error: BaseException) -> None:
    """Break the run if the exception that ends the calling function is not one of the runtime."""
    if is_foreign(error):
        call = _Call(label, sys._getframe(1))
        call.error = error
        _break_run(call)
        call.frame = call.error = None


def set_awaited_request(request: object) -> None:
    """Record that the current call of this thread waits for ``request``, which is named if the call
    is left; None: for nothing.
    """
    call = _calls.get(threading.get_ident())
    if call is not None:
        call.request = request


def is_in_call() -> bool:
    """Return whether this thread is in a function decorated by ``mark_collective``."""
    return threading.get_ident() in _calls


def is_foreign(error: BaseException) -> bool:
    """Return whether something other than the runtime has raised the exception: an interrupt, a
    signal handler, or another function of the program.
    """
    if not isinstance(error, Exception):
        return True
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in _RUNTIME


def _is_running(call: _Call) -> bool:
    """Return whether a call, of this thread, still runs; otherwise an exception has ended it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame is call.frame:
            return True
        frame = frame.f_back
    return False


def _break_run(call: _Call) -> None:
    if call.run is None:
        return
    error = "an exception" if call.error is None else type(call.error).__name__
    what = call.label if call.request is None else call.request
    reason = (
        f"{what} was left by rank {call.run.rank} ({error}, {_find_call_site(call)}): "
        "call hvd.shutdown() and hvd.init()."
    )
    ended: SimpleQueue[None] = SimpleQueue()
    # Signal handlers run in the main thread only: what another thread does is done completely.
    start_new_thread(_fail_all, (call.run, reason, ended))
    with contextlib.suppress(Empty):
        ended.get(timeout=_LEAVE_S)


def _fail_all(run: BreakableRun, reason: str, ended: SimpleQueue[None]) -> None:
    try:
        run.fail_all(reason)
    finally:
        ended.put(None)


def _find_call_site(call: _Call) -> str:
    """Return file and line of the program from which the call was made."""
    frame, at = call.caller, call.at
    while frame is not None and frame.f_back is not None and not _is_program_frame(frame):
        frame = frame.f_back
        at = frame.f_lasti
    if frame is None:
        return "an unknown line"
    path = frame.f_code.co_filename
    lines = frame.f_code.co_lines()
    line = next((line for begin, end, line in lines if begin <= at < end and line), 0)
    if _NOTEBOOK in path:
        return f"line {line} of a cell"
    return f"{os.path.basename(path)}:{line}"


def _is_program_frame(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _RUNTIME
