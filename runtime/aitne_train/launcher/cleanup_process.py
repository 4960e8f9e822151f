"""Cleanup of a run's processes, even if its launcher was killed.

A separate process waits on a pipe whose other end only the launcher holds. When that end closes
without a final message, the process kills all processes that have the run's id in their environment
(``MARK``) or are in the process group of a rank.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterable

MARK = "AITNE_RUN_ID"
"""Environment variable with the run's id, which all processes of a run have, including those that
start a new session."""
_LOOK_S = 0.02
_CLEAN_LOOKS = 3
_KILL_S = 10.0


class CleanupProcess:
    """Separate process that kills the remaining processes of a run and removes its folder, even if
    the launcher is killed. Create it before the launcher starts threads, because it forks.

    Args:
        run_id: ID of the run, which its processes have in their environment.
    """

    def __init__(self, run_id: str) -> None:
        self._mark = f"{MARK}={run_id}"
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._writer)
                _run_cleanup(reader, self._mark)
            finally:
                os._exit(0)
        os.close(reader)
        self.groups: set[int] = set()
        self._folder: str | None = None

    def add_group(self, number: int) -> None:
        """Register the process group of a rank, which will be killed at the end of the run."""
        self.groups.add(number)
        self._write_line(f"group {number}\n")

    def remove_group(self, number: int) -> None:
        """Unregister a process group whose leader has ended and been collected, because its number
        may be reused."""
        self.groups.discard(number)
        self._write_line(f"forget {number}\n")

    def add_folder(self, path: str) -> None:
        """Register a folder, which will be removed at the end of the run."""
        self._folder = path
        self._write_line(f"folder {path}\n")

    def end_processes(self, ask_s: float = 1.0) -> None:
        """Terminate the remaining processes of the run with SIGTERM, and kill them after ``ask_s``
        seconds. Processes that have ended but were not collected yet (zombies) are ignored."""
        if _list_running(self._mark, self.groups):
            _end_processes(self._mark, self.groups, signal.SIGTERM, ask_s)
            _end_processes(self._mark, self.groups, signal.SIGKILL, _KILL_S)

    def release(self) -> None:
        """Remove the folder of the ended run and end the cleanup process."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._write_line("done\n")
        os.close(self._writer)
        with contextlib.suppress(ChildProcessError):  # it is already collected
            os.waitpid(self.pid, 0)

    def _write_line(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # killed: the run continues without it
            os.write(self._writer, line.encode())


def _run_cleanup(reader: int, mark: str) -> None:
    # In its own session, so that no Ctrl-C and no `kill -9 -GROUP` reaches it.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(reader, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.closerange(4, min(os.sysconf("SC_OPEN_MAX"), 65_536))
    os.chdir("/")
    data = b""
    while part := os.read(3, 4096):
        data += part
    lines = data.decode().splitlines()
    if "done" in lines:
        return
    groups: set[int] = set()
    for line in lines:
        verb, _, rest = line.partition(" ")
        if verb == "group":
            groups.add(int(rest))
        elif verb == "forget":
            groups.discard(int(rest))
    clean = 0
    give_up = time.monotonic() + _KILL_S
    while clean < _CLEAN_LOOKS and time.monotonic() < give_up:
        clean = 0 if _signal_processes(_list_running(mark, groups), signal.SIGKILL) else clean + 1
        time.sleep(_LOOK_S)
    for line in lines:
        if line.startswith("folder "):
            shutil.rmtree(line[len("folder ") :], ignore_errors=True)


def _end_processes(mark: str, groups: set[int], number: signal.Signals, within_s: float) -> None:
    give_up = time.monotonic() + within_s
    signalled: set[int] = set()
    while pids := _list_running(mark, groups):
        _signal_processes([pid for pid in pids if pid not in signalled], number)
        signalled.update(pids)
        if time.monotonic() >= give_up:
            return
        time.sleep(_LOOK_S)


def _signal_processes(pids: Iterable[int], number: signal.Signals) -> bool:
    signalled = False
    for pid in pids:
        signalled = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return signalled


def _list_running(mark: str, groups: set[int]) -> list[int]:
    """Return the PIDs of the run's processes that have not ended (proc(5)): those with ``mark`` in
    their environment or in one of the process groups. Empty if there is no /proc."""
    marker, own_pid, pids = mark.encode(), os.getpid(), []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit() or int(name) == own_pid:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            if int(fields[2]) in groups:
                pids.append(int(name))
                continue
            with open(f"/proc/{name}/environ", "rb") as stream:
                if marker in stream.read().split(b"\0"):
                    pids.append(int(name))
        except (OSError, IndexError):
            continue  # it has ended meanwhile, or belongs to another user
    return pids
