"""Processes as /proc shows them."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from aitne.adapters.schedulers._local import procfs
from tests.support.waiting import eventually


def test_a_signal_reaches_only_who_it_is_meant_for() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = procfs.start_time(child.pid)
        assert started is not None
        assert not procfs.signal_process(child.pid, started + 1, signal.SIGKILL)
        assert child.poll() is None
        assert procfs.signal_process(child.pid, started, signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL
        assert not procfs.signal_process(child.pid, started, signal.SIGKILL)
    finally:
        child.kill()


@pytest.mark.parametrize("listed", [True, False])
def test_descendants_are_found_with_and_without_the_kernels_list(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _: listed)
    child = subprocess.Popen(
        ["bash", "-c", "sleep 60 & echo $!; wait"],
        stdout=subprocess.PIPE,
        env={**os.environ, "MARK": "x=1"},
    )
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    try:
        found = procfs.list_descendants(os.getpid())
        assert {child.pid, grandchild} <= set(found)
        assert found[grandchild] == procfs.start_time(grandchild)
        # It may still be between fork and exec.
        eventually("it sleeps", lambda: b"sleep" in procfs.command_line(grandchild))
        assert procfs.has_variable(grandchild, b"MARK=x=1")
        assert not procfs.has_variable(grandchild, b"MARK=x")
        assert procfs.command_line(grandchild)
        assert procfs.proportional_bytes(grandchild) > 0
        assert procfs.resident_bytes(grandchild) > 0
    finally:
        os.kill(grandchild, signal.SIGKILL)
        child.kill()
        child.wait()
        child.stdout.close()
    assert procfs.start_time(child.pid) is None
    assert procfs.resident_bytes(child.pid) == procfs.proportional_bytes(child.pid) == 0
    assert procfs.command_line(child.pid) == b""
