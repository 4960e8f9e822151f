"""Access to processes through ``/proc``. Standard library only and quick to import, since the
runner uses it.

A process ID alone identifies a process only for a limited time. Here a process is identified by
its ID and start time, and signals are sent through a descriptor of exactly the inspected process.
"""

from __future__ import annotations

import os

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ENDED = (b"Z", b"X")


def boot_id() -> str:
    """Return the ID of the machine's current boot: process IDs are valid only within one boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """Return the process's start time in clock ticks since boot; None if the process does not exist
    or is a zombie.
    """
    fields = _read_stat_fields(pid)
    return None if fields is None or fields[0] in _ENDED else int(fields[19])


def signal_process(pid: int, started: int, number: int) -> bool:
    """Send the signal ``number`` to the process ``pid`` if its start time is ``started``. Return
    False if that process has ended; a later process with the same ID is never signalled.
    """
    import signal  # takes 7 ms: the runner must not spend them before the script has started

    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_time(pid) != started:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def list_descendants(root: int) -> dict[int, int]:
    """Return the start time of every live descendant of ``root``, by process ID."""
    children = (
        _read_children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _Scanned()
    )
    start_times: dict[int, int] = {}
    todo = children(root)
    visited_pids = {root}
    while todo:
        pid = todo.pop()
        if pid not in visited_pids:
            visited_pids.add(pid)
            started = start_time(pid)
            if started is not None:
                start_times[pid] = started
            todo.extend(children(pid))
    return start_times


def _read_children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children.extend(map(int, file.read().split()))
    except OSError:
        return children  # it ended during the scan; its children belong to the subreaper now
    return children


class _Scanned:
    """Children of each process from one scan of all processes, for kernels without
    CONFIG_PROC_CHILDREN.
    """

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = {}
        for pid in list_process_ids():
            fields = _read_stat_fields(pid)
            if fields is not None:
                self._children.setdefault(int(fields[1]), []).append(pid)

    def __call__(self, pid: int) -> list[int]:
        return self._children.get(pid, [])


def list_process_ids() -> list[int]:
    """Return the IDs of all processes on this machine that are visible to this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def session_of(pid: int) -> int | None:
    """Return the session ID of the process; None if the process does not exist."""
    fields = _read_stat_fields(pid)
    return None if fields is None else int(fields[3])


def has_variable(pid: int, assignment: bytes) -> bool:
    """Return True if the process was started with ``NAME=value`` (``assignment``) in its
    environment; False also if its environment cannot be read.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return assignment in file.read().split(b"\0")
    except OSError:
        return False


def command_line(pid: int) -> bytes:
    """Return the arguments of the process, separated by NUL; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process in bytes; shared pages are counted in full. This is
    fast.
    """
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def proportional_bytes(pid: int) -> int:
    """Return the resident memory of the process in bytes; each shared page is divided among its
    processes. This is slow, since the kernel walks the page tables.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return resident_bytes(pid)
    return 0


def _read_stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of ``/proc/PID/stat`` from the third on (the second, the command's name,
    may contain any characters); None if the process does not exist.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None
