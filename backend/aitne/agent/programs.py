"""Starts the user's programs, passes signals on to them, and collects every process that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Sequence

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
_EVERY_SIGNAL = [number for number in range(1, 32) if number not in (9, 19)]
NOT_FOUND, NOT_STARTED = 127, 126
"""The exit codes a shell gives for a program that is not there, or cannot be run."""


class Programs:
    """The children of the agent. Each leads a process group of its own; the log is their output."""

    def __init__(self) -> None:
        self.stop_signal: int | None = None
        """The first signal that asked the job to end."""
        self._live: set[int] = set()
        self._lock = threading.RLock()

    def forward_signals(self) -> None:
        """From here on signals reach the programs, and end the agent only through them."""
        for number in _FORWARDED:
            signal.signal(number, self._forward)

    def _forward(self, number: int, _frame: object) -> None:
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) and self.stop_signal is None:
            self.stop_signal = number
        self.send(number)

    def send(self, number: int) -> None:
        """Signal the process groups of all programs that have not been collected yet."""
        with self._lock:
            for pid in self._live:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, number)

    def start(self, argv: Sequence[str], stdin: int | None = None) -> int:
        """Start a program in the agent's working directory, with the agent's environment.

        Raises:
            OSError: there is no such program, or it cannot be run.
        """
        first: tuple[int, int, int] | tuple[int, int, str, int, int]
        if stdin is None:
            first = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        else:
            first = (os.POSIX_SPAWN_DUP2, stdin, 0)
        with self._lock:
            pid = os.posix_spawnp(
                argv[0],
                list(argv),
                os.environ,
                file_actions=[first],
                setpgroup=0,
                setsigmask=[],
                setsigdef=_EVERY_SIGNAL,
            )
            self._live.add(pid)
        if self.stop_signal is not None:
            self.send(self.stop_signal)  # it came while the program was being started
        return pid

    def wait(self, wanted: int) -> int:
        """Collect whatever ends until ``wanted`` does; its exit code, 128 + n for signal n.

        Orphans of the job may have become the agent's children: they are collected on the way.
        """
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended is None:
                continue
            with self._lock:  # until it is collected, its number is nobody else's
                self._live.discard(ended.si_pid)
                pid, status = os.waitpid(ended.si_pid, 0)
            if pid == wanted:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
