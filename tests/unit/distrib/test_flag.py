"""An event that signal handlers may interrupt."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from aitne.distrib.flag import Flag


class Interrupted(BaseException):
    """Exception of a signal handler."""


def call_interrupted(function: Callable[[], object], at: int) -> bool:
    """Call a function that an exception interrupts before its instruction number ``at``; return
    whether it has more instructions than that.
    """
    count = itertools.count()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and next(count) == at:
            raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        function()
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("name", ["set", "clear", "wait"])
def test_flag_works_after_an_interrupt_of_any_instruction(name: str) -> None:
    calls: dict[str, Callable[[Flag], object]] = {
        "set": Flag.set,
        "clear": Flag.clear,
        "wait": lambda flag: flag.wait(0.001),
    }
    for at in itertools.count():
        flag = Flag()
        interrupted = call_interrupted(lambda flag=flag: calls[name](flag), at)
        waits = threading.Thread(target=flag.wait, daemon=True)
        waits.start()
        flag.set()
        waits.join(20)
        assert not waits.is_alive(), at
        assert flag.is_set()
        flag.clear()
        assert not flag.wait(0.0)
        if not interrupted:
            break
    assert at > 3
