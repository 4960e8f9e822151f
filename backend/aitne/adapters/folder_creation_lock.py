"""Lock for the creation of a folder that several processes need."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_folder_creation(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock during the ``with`` block, so that only one process at a time creates ``folder``.

    Args:
        folder: folder to create; the lock file is beside it.
        waiting: called before the wait if another process holds the lock, for example to inform
            the user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
