"""Process that the supervisor starts and restarts, with its log file and memory usage."""

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

from aitne.local_system import held_process_start
from aitne.local_system.held_process_start import HeldStart
from aitne.local_system.hung_restart_records import HEARTBEAT_VARIABLE
from aitne.local_system.process_status_file import ProcessStatus
from aitne.supervisor.hang_detector import HangDetector
from aitne.supervisor.process_account import ProcessAccount, acting_as, become_account
from aitne.supervisor.progress_detector import ProgressWatch
from aitne.supervisor.supervisor_plan import ChildPlan

DELAYS_S = (0.0, 0.2, 0.5, 1.0, 1.5)
"""Delays in seconds before consecutive restarts; the last one is used for all further restarts.

So a process that has exited is restarted within two seconds, however often.
"""
STEADY_S = 15.0
"""Seconds of running time after which the delays begin again with the first one."""
LOG_BYTES = 8 * 1024**2
LOGS_KEPT = 3
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def set_parent_death_signal(parent: int, number: int) -> None:
    """Make the kernel send the signal ``number`` to this process when its parent ends; ``parent``
    is the parent's PID.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def launch_process(
    argv: list[str],
    env: dict[str, str],
    cwd: Path,
    log: IO[bytes],
    pass_fds: Sequence[int] = (),
    account: ProcessAccount | None = None,
    hold: HeldStart | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that is killed when this process ends.

    Args:
        log: open file that receives standard output and standard error.
        pass_fds: file descriptors that the process inherits.
        account: Unix account of the process; None: the account of this process.
        hold: if set, the process waits after it is loaded, until ``hold`` is released.

    Raises:
        OSError: the program cannot be executed.
    """
    parent = os.getpid()
    if hold is not None:
        env = env | {held_process_start.VARIABLE: str(hold.descriptor)}
        pass_fds = [*pass_fds, hold.descriptor]

    def prepare() -> None:
        # A change of the account clears the signal of the parent's death, so it comes first.
        if account is not None:
            become_account(account)
        set_parent_death_signal(parent, signal.SIGKILL)

    process = subprocess.Popen(
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
    if hold is not None:
        hold.close_child_end()
    return process


def open_log(log: Path, account: ProcessAccount | None) -> IO[bytes]:
    """Open a log file for appending, as ``account`` (None: this process's own). Raises ``OSError``."""
    with acting_as(account):
        return log.open("ab")


class Child:
    """Process that the supervisor starts and restarts. The caller waits ``get_restart_delay_s`` seconds before
    each restart.
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
        """True if the last probe was answered."""
        self.process: subprocess.Popen[bytes] | None = None
        self.silence = HangDetector(plan.hung_after_s)
        self.killed_after_s: float | None = None
        """Seconds without an answer after which the process was killed because it hung; None if it
        was not.
        """
        self.hold: HeldStart | None = None
        """Hold on the process, which waits until ``release``; None if it is not held."""
        self._heartbeat: int | None = None
        self._progress = ProgressWatch(0)
        self._env = env
        self._cwd = cwd
        self._account = account
        self._in_a_row = 0
        self._began = 0.0

    @property
    def is_alive(self) -> bool:
        """Return True if the process was running when ``poll_exit_status`` was last called."""
        return self.process is not None

    def start(self, *, held: bool = False) -> None:
        """Start the process. With ``held``, it loads its modules and then waits for ``release``.

        Raises:
            OSError: the program cannot be executed.
        """
        self.hold = HeldStart() if held else None
        with self.log.open("ab") as log:
            self.process = self._launch(log)
        self._watch_start()
        self.since = datetime.now(UTC)
        self._began = time.monotonic()
        self.restarts += 1
        self.answers = False

    def release(self) -> None:
        """Let a held process continue. From then on it must answer probes like other processes;
        does nothing if it is not held.
        """
        if self.hold is not None:
            self.hold.release()
            self.hold = None
            self._watch_start()

    def _watch_start(self) -> None:
        self.silence = HangDetector(self.plan.hung_after_s)
        self._progress = ProgressWatch(0 if self.process is None else self.process.pid)
        self.killed_after_s = None

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        argv, account = self.plan.argv, self._account
        if not self.plan.heartbeat:
            return launch_process(argv, self._env, self._cwd, log, (), account, self.hold)
        if self._heartbeat is not None:
            os.close(self._heartbeat)
        self._heartbeat, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            env = self._env | {HEARTBEAT_VARIABLE: str(writer)}
            return launch_process(argv, env, self._cwd, log, (writer,), account, self.hold)
        finally:
            os.close(writer)

    def has_new_heartbeat(self) -> bool:
        """Return True if the process has written a heartbeat since the last call."""
        try:
            return self._heartbeat is not None and bool(os.read(self._heartbeat, 65_536))
        except BlockingIOError:
            return False

    def record_probe(self, answered: bool) -> None:
        """Record the result of one probe: True if the process has answered it."""
        starting = self.silence.is_starting and not answered
        self.silence.record_probe(
            answered, has_progressed=starting and self._progress.has_progressed()
        )

    def kill_hung(self) -> None:
        """Kill the process because it does not answer. The supervisor then restarts it like any
        process that has exited.
        """
        self.killed_after_s = self.silence.seconds
        self.send_signal(signal.SIGKILL)

    def poll_exit_status(self) -> int | None:
        """Return the exit status if the process has exited since the last call; otherwise None."""
        status = None if self.process is None else self.process.poll()
        if status is not None:
            self.process = None
            self.answers = False
        return status

    def get_restart_delay_s(self) -> float:
        """Return the number of seconds to wait before the next restart. The number grows with
        consecutive restarts, until a process has run for more than ``STEADY_S`` seconds.
        """
        if time.monotonic() - self._began > STEADY_S:
            self._in_a_row = 0
        delay = DELAYS_S[min(self._in_a_row, len(DELAYS_S) - 1)]
        self._in_a_row += 1
        return delay

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it is running."""
        if self.process is not None:
            self.process.send_signal(number)

    def get_metrics_status(self) -> ProcessStatus:
        """Return the status of the process that the API's metrics contain."""
        return ProcessStatus(
            name=self.plan.name,
            pid=self.process.pid if self.process is not None else 0,
            restarts=max(self.restarts, 0),
            started_at=self.since.timestamp(),
            answers=self.answers,
        )

    def get_status(self, *, brief: bool) -> dict[str, Any]:
        """Return the entry of the process in the supervisor's response to ``status``.

        Args:
            brief: whether to omit the memory usage, which takes long to determine.
        """
        pid = self.process.pid if self.process is not None else 0
        return {
            "name": self.plan.name,
            "pid": pid,
            "port": self.plan.port,
            "memory_bytes": None if brief else read_proportional_memory(pid),
            "restarts": max(self.restarts, 0),
            "since": self.since.isoformat(timespec="seconds"),
            "answers": self.answers,
        }


def read_proportional_memory(pid: int) -> int | None:
    """Return the proportional set size (PSS) of a process in bytes; None if the kernel does not
    report it. The size of each shared page is divided among the processes that share it.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return None


def rotate_log(log: Path) -> None:
    """Rotate the log file and keep a few old ones.

    The content is copied and the file truncated, so that processes can continue to append to their
    open descriptors. If the disk is full, the old logs are deleted, because rotation must not
    prevent a restart.
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


def read_last_lines(log: Path, lines: int = 15) -> str:
    """Return the last ``lines`` lines of a log file, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8_192))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines()[-lines:])
