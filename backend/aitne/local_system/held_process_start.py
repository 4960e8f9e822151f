"""Start of a process in two steps: it loads its modules, then waits until its supervisor lets it
continue.

The supervisor loads the processes of a new platform while an earlier one still serves requests, and
lets them continue after the earlier one has stopped. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

VARIABLE = "AITNE_HELD_START_FD"
"""Environment variable with the file descriptor of the socket to the supervisor."""


def is_held() -> bool:
    """Return whether this process has to wait for its supervisor after it is loaded."""
    return VARIABLE in os.environ


def wait_for_release() -> None:
    """Report to the supervisor that this process is loaded, and wait until it may continue. Returns
    at once if the process is not held.

    Raises:
        SystemExit: the supervisor has ended.
    """
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return
    with socket.socket(fileno=int(descriptor)) as supervisor:
        # A supervisor that has released this process before it was loaded has closed its side, and
        # the permission to continue waits to be read.
        with contextlib.suppress(ConnectionError):
            supervisor.sendall(b".")
        try:
            continues = supervisor.recv(1)
        except ConnectionError:
            continues = b""
    if not continues:
        sys.exit(1)


class HeldStart:
    """Connection of the supervisor to a process that it starts in two steps."""

    def __init__(self) -> None:
        self._own, self._other = socket.socketpair()
        self._own.setblocking(False)
        self._loaded = False

    @property
    def descriptor(self) -> int:
        """Return the file descriptor of the socket that the process inherits."""
        return self._other.fileno()

    def close_child_end(self) -> None:
        """Close the supervisor's copy of the process's socket. Call it after the process has been
        started, which inherits the socket.
        """
        self._other.close()

    @property
    def is_loaded(self) -> bool:
        """Return whether the process has loaded its modules and is waiting."""
        if not self._loaded:
            try:
                self._loaded = bool(self._own.recv(1))
            except (BlockingIOError, ConnectionError):
                return False
        return self._loaded

    def release(self) -> None:
        """Let the process continue: at once if it is waiting, otherwise as soon as it is loaded."""
        # If the process has ended, its supervisor notices that elsewhere.
        with contextlib.suppress(ConnectionError):
            self._own.sendall(b".")
        self._own.close()
