"""One controller per data directory where the scheduler bears only one, and a quick succession.

The lease in the database decides who leads. On one machine a file lock says more: whoever holds it
knows that the holder before is dead, so its lease need not be waited for.
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


def new_holder() -> str:
    """A name for this process in the lease, of no other before or after."""
    return f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"


@contextmanager
def hold_lock(path: Path, holder: str, *, alone: bool) -> Iterator[str | None]:
    """Hold the file lock while the block runs; the holder before this one, which is dead.

    Without ``alone`` the block runs also while somebody else has the lock; then nobody's death is
    known of.

    Raises:
        SetupError: another controller works on this data directory, and this one is to be alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor, path, alone=alone):
            yield None
            return
        previous = os.read(descriptor, 1_000).decode(errors="replace").strip() or None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield previous
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, *, alone: bool) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not alone:
                return False
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Another controller holds {path}; end it first, or use another data directory."
                ) from None
            time.sleep(0.1)
        else:
            return True
