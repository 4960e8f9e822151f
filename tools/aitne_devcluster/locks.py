"""Locks in files in ``/run`` that are removed together with the clusters they protect."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aitne.local_system.dev_cluster_records import DESCRIPTORS

ALL = ".all"
"""Name of the lock that must be held to change ports, users or the folder of all clusters."""


@contextmanager
def hold_cluster_lock(name: str) -> Iterator[None]:
    """Hold a lock during the ``with`` block; wait while another process holds it. ``name`` is the
    name of a cluster or ``ALL``.
    """
    path = DESCRIPTORS / f"{name}.lock"
    while True:
        DESCRIPTORS.mkdir(mode=0o755, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the folder went away in between
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)  # its last holder has removed it
    try:
        yield
    finally:
        path.unlink()
        os.close(descriptor)
        with suppress(OSError):
            DESCRIPTORS.rmdir()  # fails while a cluster runs or a lock is held
