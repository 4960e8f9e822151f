"""Monitor of the ranks of one node: delivers signals, and reports which rank has ended and how.

The engine with local rank 0 forks the monitor before it imports large packages. As a separate
process, the monitor does not need the GIL of an engine and works while a cell executes native code.
Engines register at a UNIX socket in a folder that only their account can read. The monitor ends
after its last engine.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aitne_train.notebook import rank_group_connection_files
from aitne_train.notebook.node_monitor_channel import MonitorChannel

_LINE = 64 * 1024
_START_S = 120.0
_UCRED = "iII"
"""Format of ``struct ucred`` of unix(7): pid, uid, gid."""
_QUERY_S = 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EXIT_FIELD = 52
"""Number of the field ``exit_code`` in ``/proc/PID/stat``, from 1 (proc(5))."""


@dataclass
class _Engine:
    pid: int
    process: int
    """File descriptor of the process (pidfd_open(2)), which never means a later process."""
    report: dict[str, Any]


def find_node_name() -> str:
    """Return the name of this node in the scheduler, or else its host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def run_monitor(folder: Path, node: int, engines: int) -> None:
    """Watch the engines of this node until all have ended.

    Args:
        folder: folder of the rank group.
        node: number of this node in the group.
        engines: number of engines on this node.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # it ends with its engines, not before
    parent = os.pidfd_open(os.getppid())
    private = tempfile.mkdtemp(prefix="aitne-notebook-")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(private, "monitor"))
            os.chmod(os.path.join(private, "monitor"), 0o600)
            listener.listen(engines)
            rank_group_connection_files.write_file(
                folder, f"node-{node}.json", {"socket": private + "/monitor"}
            )
            found = _accept_engines(listener, engines, parent)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    Monitor(folder, node, found).run()


def register_engine(folder: Path, node: int, report: Mapping[str, Any]) -> None:
    """Register this engine at the monitor of its node.

    Args:
        folder: folder of the rank group.
        node: number of this node in the group.
        report: fields of ``connection.Rank`` for this rank, except ``pid`` and ``node``; ``device``
            instead of ``gpu``.

    Raises:
        connection.ConnectionFilesError: the monitor has not started.
        OSError: the monitor has ended.
    """
    where = rank_group_connection_files.wait_for_file(folder, f"node-{node}.json", _START_S)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(where["socket"])
        line.sendall(json.dumps(report).encode() + b"\n")
        line.recv(1)


def _accept_engines(listener: socket.socket, engines: int, parent: int) -> dict[int, _Engine]:
    """Wait for the registration of the engines of this node, and return them by rank.

    Fewer than ``engines`` are returned if the process that started the monitor has ended, or if
    none registers for ``_START_S`` seconds.

    Args:
        listener: socket at which engines register.
        engines: number of engines on this node.
        parent: pidfd of the process that started the monitor.
    """
    found: dict[int, _Engine] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(parent, select.POLLIN)
    while len(found) < engines:
        ready = [descriptor for descriptor, _ in poll.poll(_START_S * 1000)]
        if listener.fileno() not in ready:
            break
        line, _ = listener.accept()
        with line:
            pid, uid, _ = struct.unpack(
                _UCRED,
                line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_UCRED)),
            )
            if uid != os.geteuid():
                continue
            line.settimeout(_QUERY_S)
            with contextlib.suppress(OSError, ValueError, KeyError):
                report = json.loads(line.makefile("rb").readline(_LINE))
                found[int(report["rank"])] = _Engine(pid, os.pidfd_open(pid), report)
                line.sendall(b"\n")
    return found


class Monitor:
    """Monitor of the engines of a node, which executes the controller's orders.

    Args:
        folder: folder of the rank group.
        node: number of this node in the group.
        engines: the engines of this node, by rank.
    """

    def __init__(self, folder: Path, node: int, engines: dict[int, _Engine]) -> None:
        self._engines = engines
        self._gpus = _Gpus()
        self._channel = MonitorChannel(
            rank_group_connection_files.wait_for_file(
                folder, rank_group_connection_files.ENGINE, _START_S
            ),
            f"monitor-{node}",
        )
        name = find_node_name()
        self._channel.send(
            "node_request",
            {
                "node": node,
                "ranks": [
                    {
                        **engine.report,
                        "pid": engine.pid,
                        "node": name,
                        "gpu": self._gpus.describe_gpu(str(engine.report.get("device", ""))),
                    }
                    for engine in engines.values()
                ],
            },
        )

    def run(self) -> None:
        """Execute orders, and report each engine that ends, until all engines have ended."""
        import zmq

        poller = zmq.Poller()
        poller.register(self._channel.socket, zmq.POLLIN)
        for engine in self._engines.values():
            poller.register(engine.process, zmq.POLLIN)
        while self._engines:
            ready = dict(poller.poll())
            for rank, engine in list(self._engines.items()):
                if engine.process in ready:
                    poller.unregister(engine.process)
                    self._report_end(rank)
            if self._channel.socket in ready:
                while (order := self._channel.receive()) is not None:
                    self._handle_order(*order)
        self._channel.close()

    def _report_end(self, rank: int) -> None:
        engine = self._engines.pop(rank)
        number, code = _describe_end(engine.pid)
        os.close(engine.process)
        self._channel.send("death_request", {"rank": rank, "signal": number, "code": code})

    def _handle_order(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "signal_order":
            for rank in content["ranks"]:
                if rank in self._engines:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(
                            self._engines[rank].process, int(content["number"])
                        )
        elif kind == "sample_order":
            samples = {
                str(rank): {
                    "memory": _read_memory(engine.pid),
                    "gpu_memory": self._gpus.get_used_memory(str(engine.report.get("device", ""))),
                }
                for rank, engine in self._engines.items()
            }
            self._channel.send("sample_request", {"order": content["order"], "ranks": samples})
            self._gpus.refresh()


def _describe_end(pid: int) -> tuple[int | None, int | None]:
    """Return how a process has ended: the number of the signal that killed it, or its exit code.
    The other value is None. Both are None if the launcher has collected the process already."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = int(fields[_EXIT_FIELD - 3])
    except (OSError, IndexError, ValueError):
        return None, None
    if fields[0] not in ("Z", "X"):
        return None, None
    return (os.WTERMSIG(status), None) if os.WIFSIGNALED(status) else (None, os.WEXITSTATUS(status))


def _read_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


class _Gpus:
    """GPUs of this node according to ``nvidia-smi``; empty if this program is not installed."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-smi")
        self._found: dict[str, tuple[str, str, int]] = {}
        self._busy = threading.Lock()
        self._query_gpus()

    def describe_gpu(self, device: str) -> str:
        """Return the index and the name of a GPU, such as ``0: NVIDIA H100``.

        ``device`` is an index or UUID from ``CUDA_VISIBLE_DEVICES``. It is returned unchanged if
        the GPU is unknown.
        """
        if device not in self._found:
            return device
        index, name, _ = self._found[device]
        return f"{index}: {name}"

    def get_used_memory(self, device: str) -> int | None:
        """Return the used memory of a GPU in bytes, as of the last refresh; None if it is
        unknown."""
        return self._found[device][2] if device in self._found else None

    def refresh(self) -> None:
        """Update the memory use of the GPUs in a separate thread."""
        if self._program and self._busy.acquire(blocking=False):
            threading.Thread(target=self._refresh_and_release, daemon=True).start()

    def _refresh_and_release(self) -> None:
        try:
            self._query_gpus()
        finally:
            self._busy.release()

    def _query_gpus(self) -> None:
        if not self._program:
            return
        fields = "index,uuid,name,memory.used"
        try:
            answer = subprocess.run(
                [self._program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                timeout=_QUERY_S,
                check=True,
                stdin=subprocess.DEVNULL,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return
        for row in csv.reader(answer.splitlines(), skipinitialspace=True):
            if len(row) == 4 and row[3].strip().isdigit():
                gpu = (row[0], row[2], int(row[3]) << 20)
                self._found[row[0]] = self._found[row[1]] = gpu
