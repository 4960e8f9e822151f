"""TCP ports that a process of tests holds: no other one on this machine is given them meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
import threading
from functools import cache
from pathlib import Path

PORTS = range(12_000, 20_000)
"""Below the ports of jobs (``MASTER_PORT``), of development clusters, and of clients (the kernel's
``ip_local_port_range``).
"""
_OWN_PORTS: set[int] = set()
_MUTEX = threading.Lock()


def reserve_ports(count: int = 1) -> int:
    """Return the first of so many consecutive ports, on which nothing listens.

    They are this process's until it ends or releases them.

    Raises:
        RuntimeError: so many are not free in a row.
    """
    start = random.randrange(len(PORTS))
    with _MUTEX:
        for first in (*PORTS[start:], *PORTS[:start]):
            if first + count <= PORTS.stop and _take(range(first, first + count)):
                return first
    raise RuntimeError(f"No {count} consecutive ports are free in {PORTS}.")


def release_ports(first: int, count: int = 1) -> None:
    """Let other processes have ports that ``reserve_ports`` returned."""
    with _MUTEX:
        _OWN_PORTS.difference_update(range(first, first + count))
        fcntl.lockf(_locks(), fcntl.LOCK_UN, count, first)


def _take(ports: range) -> bool:
    if not _OWN_PORTS.isdisjoint(ports):
        return False
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
    except OSError:  # another process has one of them
        return False
    if not all(map(_is_free, ports)):
        fcntl.lockf(_locks(), fcntl.LOCK_UN, len(ports), ports.start)
        return False
    _OWN_PORTS.update(ports)
    return True


@cache
def _locks() -> int:
    """Open the file whose byte n is locked by the process that has port n.

    The kernel removes such locks with the process, and children do not inherit them; any closing
    of the file would remove them too, so it stays open.
    """
    path = Path(tempfile.gettempdir(), "aitne-tests-ports.lock")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    with contextlib.suppress(PermissionError):
        path.chmod(0o666)  # tests of other accounts use it too
    return os.open(path, os.O_RDWR)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
