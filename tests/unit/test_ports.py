"""Ports that tests reserve are a process's own, on the whole machine, until it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import subprocess, sys
from tests.support import ports

ports.PORTS = range(11_000, 11_000 + int(sys.argv[1]))
print(*[ports.reserve_ports(2) for _ in range(int(sys.argv[2]))], flush=True)
while command := sys.stdin.readline().strip():
    if command == "release":
        print(ports.release_ports(ports.PORTS.start, 2), flush=True)
    else:
        print(subprocess.Popen(["cat"], close_fds=False).pid, flush=True)
"""


@contextmanager
def holding(folder: Path, ports: int, blocks: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process that reserves so many blocks of two ports, and kill it after the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ports), str(blocks)],
        env={**os.environ, "TMPDIR": str(folder)},
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str], command: str = "") -> str:
    """Return the next line of a process, first the blocks that it has reserved."""
    assert process.stdin is not None
    assert process.stdout is not None
    if command:
        print(command, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def test_two_processes_reserve_different_ports(tmp_path: Path) -> None:
    with holding(tmp_path, 40, 6) as one, holding(tmp_path, 40, 6) as other:
        blocks = [int(each) for line in (line_of(one), line_of(other)) for each in line.split()]
    assert len({port for first in blocks for port in (first, first + 1)}) == 24


def test_ports_are_free_once_their_process_has_ended(tmp_path: Path) -> None:
    with holding(tmp_path, 2, 1) as one:
        assert line_of(one) == "11000"
        with holding(tmp_path, 2, 1) as other:
            assert "No 2 consecutive ports are free" in other.communicate()[1]
        child = line_of(one, "start a child")
        one.kill()
        one.wait()
        assert Path("/proc", child).exists()
        with holding(tmp_path, 2, 1) as third:
            assert line_of(third) == "11000"


def test_ports_that_are_released_are_given_to_another_process(tmp_path: Path) -> None:
    with holding(tmp_path, 2, 1) as one:
        assert line_of(one) == "11000"
        assert line_of(one, "release") == "None"
        with holding(tmp_path, 2, 1) as other:
            assert line_of(other) == "11000"
