"""Process that is kept running, with its log and memory."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from aitne.host.hung_processes import HEARTBEAT_VARIABLE
from aitne.supervisor.identity import ProcessAccount, acting_as, become
from aitne.supervisor.plan import ChildPlan
from aitne.supervisor.progress import ProgressWatch
from aitne.supervisor.silence import HangDetector

DELAYS_S = (0.0, 0.2, 0.5, 1.0, 1.5)
"""Delays in seconds before consecutive restarts.

A process that has exited is restarted within two seconds, however often.
"""
STEADY_S = 15.0
"""Seconds of life after which a process counts as steady, and the delays start again."""
LOG_BYTES = 8 * 1024**2
LOGS_KEPT = 3
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int, number: int) -> None:
    """Have the kernel send this process a signal when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def launch(
    argv: list[str],
    env: dict[str, str],
    cwd: Path,
    log: IO[bytes],
    pass_fds: Sequence[int] = (),
    account: ProcessAccount | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that dies with this one, as ``account`` (None: as this one). Raises ``OSError``."""
    parent = os.getpid()

    def prepare() -> None:
        # A change of the account clears the signal of the parent's death, so it comes first.
        if account is not None:
            become(account)
        die_with(parent, signal.SIGKILL)

    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=cwd,
        env=env,
        start_new_session=True,
        pass_fds=pass_fds,
        # This process has one thread, so no lock can be held across the fork.
        preexec_fn=prepare,
    )


def open_log(log: Path, account: ProcessAccount | None) -> IO[bytes]:
    """Open a log of ``account`` (None: of this process's) for appending. Raises ``OSError``."""
    with acting_as(account):
        return log.open("ab")


class Child:
    """One process that the supervisor runs and restarts. ``delay_s`` returns how long the caller
    waits before a restart.
    """

    def __init__(
        self,
        plan: ChildPlan,
        env: dict[str, str],
        logs: Path,
        cwd: Path,
        account: ProcessAccount | None = None,
    ) -> None:
        self.plan = plan
        self.log = logs / f"{plan.name}.log"
        self.restarts = -1
        self.since = datetime.now(UTC)
        self.answers = False
        """Result of its last probe."""
        self.process: subprocess.Popen[bytes] | None = None
        self.silence = HangDetector(plan.hung_after_s)
        self.killed_after_s: float | None = None
        """Seconds of silence after which the hung process was killed; None if it was not."""
        self._heartbeat: int | None = None
        self._progress = ProgressWatch(0)
        self._env = env
        self._cwd = cwd
        self._account = account
        self._in_a_row = 0
        self._began = 0.0

    @property
    def alive(self) -> bool:
        """Return whether the process is running, according to the last check."""
        return self.process is not None

    def start(self) -> None:
        """Start the process. Raises ``OSError`` if its program cannot be executed."""
        with self.log.open("ab") as log:
            self.process = self._launch(log)
        self.silence = HangDetector(self.plan.hung_after_s)
        self._progress = ProgressWatch(self.process.pid)
        self.killed_after_s = None
        self.since = datetime.now(UTC)
        self._began = time.monotonic()
        self.restarts += 1
        self.answers = False

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        if not self.plan.heartbeat:
            return launch(self.plan.argv, self._env, self._cwd, log, (), self._account)
        if self._heartbeat is not None:
            os.close(self._heartbeat)
        self._heartbeat, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            env = self._env | {HEARTBEAT_VARIABLE: str(writer)}
            return launch(self.plan.argv, env, self._cwd, log, (writer,), self._account)
        finally:
            os.close(writer)

    def heartbeat(self) -> bool:
        """Return True if the process has written a heartbeat since the last call."""
        try:
            return self._heartbeat is not None and bool(os.read(self._heartbeat, 65_536))
        except BlockingIOError:
            return False

    def note(self, answered: bool) -> None:
        """Record whether the process has answered one probe."""
        starting = self.silence.starting and not answered
        self.silence.note(answered, works=starting and self._progress.works())

    def kill_hung(self) -> None:
        """Kill the process because it does not answer; it is restarted like any that exited."""
        self.killed_after_s = self.silence.seconds
        self.signal(signal.SIGKILL)

    def died(self) -> int | None:
        """Return the exit status, once, after the process has exited; otherwise None."""
        status = None if self.process is None else self.process.poll()
        if status is not None:
            self.process = None
            self.answers = False
        return status

    def delay_s(self) -> float:
        """Return the seconds to wait before the next restart."""
        if time.monotonic() - self._began > STEADY_S:
            self._in_a_row = 0
        delay = DELAYS_S[min(self._in_a_row, len(DELAYS_S) - 1)]
        self._in_a_row += 1
        return delay

    def signal(self, number: int) -> None:
        """Send the process a signal, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def status(self, *, brief: bool) -> dict[str, Any]:
        """Return the process's entry in the answer to ``status``. ``brief`` leaves out the memory
        use, which takes long to read.
        """
        pid = self.process.pid if self.process is not None else 0
        return {
            "name": self.plan.name,
            "pid": pid,
            "port": self.plan.port,
            "memory_bytes": None if brief else proportional_memory(pid),
            "restarts": max(self.restarts, 0),
            "since": self.since.isoformat(timespec="seconds"),
            "answers": self.answers,
        }


def proportional_memory(pid: int) -> int | None:
    """Return the proportional set size (PSS), in which shared pages count by share.

    None means that the kernel does not report it.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return None


def rotate(log: Path) -> None:
    """Rotate the log and keep a few old ones.

    Children append, so copying and truncating loses no descriptor. If the disk is full, the old
    logs are deleted: a log must not prevent a restart.
    """
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return
    logs = [log, *(log.with_name(f"{log.name}.{number}") for number in range(1, LOGS_KEPT + 1))]
    for older, newer in reversed(list(pairwise(logs[1:]))):
        if older.exists():
            older.replace(newer)
    try:
        shutil.copy2(log, logs[1])
    except OSError:
        logs[1].unlink(missing_ok=True)
    os.truncate(log, 0)


def tail(log: Path, lines: int = 15) -> str:
    """Return the last ``lines`` lines of a log file, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8_192))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines()[-lines:])
