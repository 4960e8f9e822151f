"""Lock that lets only one process at a time make a folder that several processes need."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_builder(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock during the ``with`` block, so that only one process at a time makes ``folder``.
    If another process holds it, ``waiting`` is called, for example to tell the user, before the
    wait.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
