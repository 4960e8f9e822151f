"""File lock for the controller of a data directory, with which a new controller can start without
delay.

The lease in the database determines which controller is the leader. On one machine, the file lock
additionally proves that the process of the previous holder has ended, so that the new controller
need not wait until the lease expires.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aitne.core.errors import SetupError

PATIENCE_S = 5.0


def make_holder_name() -> str:
    """Return a unique name under which a controller process holds the leader's lease. It contains
    the host name, the PID and a monotonic time, so that no two processes use the same name.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"


@contextmanager
def hold_lock(path: Path, holder: str, *, exclusive: bool) -> Iterator[str | None]:
    """Hold the file lock during the ``with`` block; yield the name of the previous holder, whose
    process has ended. Yields None if the name is not known.

    Args:
        path: path of the lock file.
        holder: name of this controller, which is written to the file.
        exclusive: whether the lock is required. If not, the block also runs while another process holds
            the lock, and None is yielded.

    Raises:
        SetupError: the lock is required, and another controller still holds it after ``PATIENCE_S``
            seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock_file(descriptor, path, exclusive=exclusive):
            yield None
            return
        previous = os.read(descriptor, 1_000).decode(errors="replace").strip() or None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield previous
    finally:
        os.close(descriptor)


def _lock_file(descriptor: int, path: Path, *, exclusive: bool) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not exclusive:
                return False
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Another controller holds {path}; end it first, or use another data directory."
                ) from None
            time.sleep(0.1)
        else:
            return True
