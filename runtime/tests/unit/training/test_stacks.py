"""Tests of the stacks that are read from running, blocked and stopped processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from aitne_train.stacks import format_own_stacks, request_stacks
from tests.support.waiting import eventually

PROGRAM = """
import ctypes, json, os, sys
from aitne_train.stacks import build_address
print(json.dumps(dict(build_address())), flush=True)
def held():
    if sys.argv[1] == "held":
        ctypes.PyDLL(None).pause()      # keeps the interpreter's lock
    sys.stdin.read()
held()
"""


def start(how: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.fixture
def other(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process, address = start(request.param)
    yield process, address
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def test_every_thread_of_the_program_is_shown() -> None:
    leave = threading.Event()

    def loiter_here() -> None:
        leave.wait()

    thread = threading.Thread(target=loiter_here, name="loiterer")
    thread.start()
    found: list[str] = []
    looker = threading.Thread(
        target=lambda: found.append(format_own_stacks()), name="aitne-control"
    )
    looker.start()
    looker.join()
    from_main = format_own_stacks()
    leave.set()
    thread.join()
    for text in (from_main, *found):
        assert text.startswith("MainThread:\n")
        assert "loiterer:\n" in text
        assert "in loiter_here" in text
        assert "aitne-control:" not in text
    assert "from_main = format_own_stacks()" in from_main, (
        "one who waits is asked by its own thread"
    )


@pytest.mark.parametrize("other", ["held"], indirect=True)
def test_a_process_whose_interpreter_is_held_is_asked_by_signal(
    other: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    # It has told its address before it takes the lock for good.
    eventually("it holds the lock", lambda: "in held" in request_stacks(other[1]))
    assert other[0].poll() is None, "asking must not end it"
    assert "in held" in request_stacks(other[1]), "it can be asked again"


@pytest.mark.parametrize("other", ["waits"], indirect=True)
def test_a_stopped_process_is_said_to_be_stopped(
    other: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    process, address = other
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert "is stopped" in request_stacks(address)
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("other", ["waits"], indirect=True)
def test_a_process_that_has_ended_is_said_so(
    other: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    process, address = other
    assert "has ended" in request_stacks({**address, "started": "1"}), (
        "its number belongs to another now"
    )
    process.kill()
    process.wait()
    assert "has ended" in request_stacks(address)
