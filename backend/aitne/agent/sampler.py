"""Measurement of the job's processes, without the agent: CPU and memory use, storage I/O, number of
processes, GPUs; and of the energy of the node's CPUs."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from datetime import datetime, timezone
from typing import Any

from aitne.agent.gpus import Gpus
from aitne.agent.growing_intervals import LOOKS_PER_INTERVAL
from aitne.agent.rapl import POWERCAP, READ_AT_LEAST_EVERY_S, Rapl, has_whole_nodes
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

_PSS_UP_TO = 64
"""Maximum number of processes for which proportional memory (PSS) is measured; it takes longer than
resident memory, which is measured for more processes."""
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
"""Whether the kernel lists the children of each thread (CONFIG_PROC_CHILDREN)."""


class Sampler:
    """Thread that measures the CPU, memory and GPU use of the job's processes at growing intervals,
    and reports it.
    """

    def __init__(self, spec: Spec, reporter: Reporter, pids_file: str | None = None) -> None:
        """Create the sampler.

        Args:
            spec: description of the job.
            reporter: sends the samples.
            pids_file: file with the PIDs of processes of the job that are not descendants of the
                agent, one on each line; None: all are descendants.
        """
        self._pids_file = pids_file
        self._node = spec.node
        self._interval_s = spec.sample_interval_s
        self._reporter = reporter
        self._gpus: Gpus | None = None
        self._rapl: Rapl | None = None
        self._energy_j: float | None = 0.0
        self._cpu_s = 0.0
        self._io = (0, 0)
        self._at = time.monotonic()

    def start(self) -> None:
        """Start the thread that measures."""
        threading.Thread(target=self._run, name="sample", daemon=True).start()

    def _run(self) -> None:
        # Orphaned programs become children of the agent, so that they are measured.
        adopt_orphans()
        self.open_gpus()
        self.open_rapl()
        taken = 0
        while True:
            self._sleep_for_interval()
            try:
                self._reporter.queue_sample(self.measure())
            except (OSError, ValueError, IndexError):
                continue  # a process ended during the measurement: the next one counts
            taken += 1
            if taken % LOOKS_PER_INTERVAL == 0:
                self._interval_s *= 2

    def open_gpus(self) -> None:
        """Include the job's GPUs in the samples from now on."""
        self._gpus = Gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))

    def open_rapl(self, root: str = POWERCAP) -> None:
        """Include the energy of the node's CPUs in the samples from now on, if the counters below
        ``root`` can be read."""
        rapl = Rapl(root)
        self._rapl = rapl if rapl.is_readable else None

    def _sleep_for_interval(self) -> None:
        rest_s = self._interval_s
        while self._rapl is not None and rest_s > READ_AT_LEAST_EVERY_S:
            time.sleep(READ_AT_LEAST_EVERY_S)
            self._rapl.energy_j()
            rest_s -= READ_AT_LEAST_EVERY_S
        time.sleep(rest_s)

    def measure(self) -> dict[str, Any]:
        """Take one sample and return it in the format of the agent's reports. CPU use and power are
        means since the previous sample; bytes and energy are totals."""
        look = list_descendants_from_kernel if _LISTS_CHILDREN else list_descendants
        pids = look(os.getpid(), *self._read_daemon_pids())
        # The times of the parent include those of ended children that were waited for.
        times = os.times()
        cpu_s = times.children_user + times.children_system + sum(map(_cpu_s, pids))
        now = time.monotonic()
        elapsed_s = max(now - self._at, 1e-3)
        cpu = max(0.0, cpu_s - self._cpu_s) / elapsed_s
        self._cpu_s, self._at = cpu_s, now
        energy_j = None if self._rapl is None else self._rapl.energy_j()
        power_w = None
        if energy_j is not None and self._energy_j is not None:
            power_w = (energy_j - self._energy_j) / elapsed_s
        self._energy_j = energy_j
        memory = _read_pss_bytes if len(pids) <= _PSS_UP_TO else _read_rss_bytes
        # The counters of the parent include those of ended children that were waited for.
        io = [_read_io_bytes(pid) for pid in (os.getpid(), *pids)]
        # A process that ended and was not waited for takes its counters with it.
        read_bytes = max(self._io[0], sum(read for read, _ in io))
        written_bytes = max(self._io[1], sum(written for _, written in io))
        self._io = read_bytes, written_bytes
        return {
            "time": datetime.now(timezone.utc).isoformat(),  # noqa: UP017 (nodes may have 3.9)
            "node": self._node,
            "cpu": round(cpu, 3),
            "memory_bytes": sum(map(memory, pids)),
            "processes": len(pids),
            "read_bytes": read_bytes,
            "written_bytes": written_bytes,
            "gpu": self._gpus.measure() if self._gpus is not None else [],
            "cpu_energy_j": energy_j if has_whole_nodes(os.environ) else None,
            "node_cpu_power_w": power_w,
        }

    def _read_daemon_pids(self) -> list[int]:
        """Return the PIDs in ``pids_file``, which are the first processes of containers that a
        daemon has started; empty if the file does not exist."""
        if self._pids_file is None:
            return []
        try:
            with open(self._pids_file, encoding="ascii") as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends (subreaper)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def list_descendants(root: int, *others: int) -> list[int]:
    """Return the PIDs of all descendants of ``root``, and of the processes ``others`` with their
    descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _read_stat_fields(int(name))
            if fields is not None and fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(name))
    pids = list(others)
    todo = [root, *others]
    while todo:
        below = children.get(todo.pop(), [])
        pids += below
        todo += below
    return pids


def list_descendants_from_kernel(root: int, *others: int) -> list[int]:
    """Return what ``list_descendants`` returns, from the kernel's lists of children. It does not look at
    the other processes of the node, of which there may be thousands, but may miss a process while a
    sibling ends.
    """
    pids = list(others)
    todo = [root, *others]
    while todo:
        below = [pid for pid in _list_child_pids(todo.pop()) if _is_alive(pid)]
        pids += below
        todo += below
    return pids


def _list_child_pids(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has ended
    return found


def _is_alive(pid: int) -> bool:
    fields = _read_stat_fields(pid)
    return fields is not None and fields[0] not in (b"Z", b"X")


def _read_stat_fields(pid: int) -> list[bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _cpu_s(pid: int) -> float:
    fields = _read_stat_fields(pid)
    return 0.0 if fields is None else sum(map(int, fields[11:15])) / _TICKS


def _read_io_bytes(pid: int) -> tuple[int, int]:
    """Return the bytes that the process has read from storage and written to it."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            counts = dict(line.split(b": ", 1) for line in file)
        return int(counts[b"read_bytes"]), int(counts[b"write_bytes"])
    except (OSError, KeyError):
        return 0, 0


def _read_rss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def _read_pss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return _read_rss_bytes(pid)
    return 0
