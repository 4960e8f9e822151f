"""Ports that programs of a job listen on later: chosen at random, held from their choice to the end
of the programs, and watched for listeners of other accounts.

A port that is bound, closed and named to a program may be taken by any process before the program
listens there, and users of one machine share its ports. A held port is bound by a socket that does
not listen. As long as it is closed, the kernel lets no other process bind it; when it is open
(``SO_REUSEADDR``), the kernel lets in every program that sets this option too, as servers do,
whatever its account. Therefore the account of the listener is asked of the kernel.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time

from aitne_train.launcher import port_listeners
from aitne_train.launcher.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterator, Sequence

_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_DEFAULT_RANGE = (32_768, 60_999)
_FIRST, _LAST = 20_000, 65_535
_FEWEST = 1_000
"""Number of ports outside the kernel's range from which they are sufficient to choose at random."""
_TRIES = 100
_BACKLOG = 1_024
_STEADY_S, _SLOWEST_S = 10.0, 0.25
_SHARE = 10
"""Shortest pause between two looks, as a multiple of the time that a look takes."""


class HeldPort:
    """Port of this machine, on all its addresses, that this process keeps bound. It is closed at
    first: no process can listen on it.

    Args:
        fastest_s: seconds between two looks for listeners in the first ten seconds after ``open_to_program``.
            Later looks are rarer in proportion to the time since then, down to four per second, as
            they are while a program of this account listens.

    Raises:
        LaunchError: no port is free.
    """

    def __init__(self, fastest_s: float) -> None:
        self._fastest_s = fastest_s
        self._opened = 0.0
        self.next_look: float | None = None
        """Time (``time.monotonic``) at which ``find_foreign_uid`` must be called next; None if the port
        is not open."""
        for number in _draw_ports():
            try:
                self._socket = _bind_port(number)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                raise LaunchError(f"no port can be bound: {error.strerror}") from error
            self.number = number
            return
        raise LaunchError(
            f"none of {_TRIES} ports chosen at random is free: end programs that listen on this node"
        )

    def open_to_program(self) -> None:
        """Let programs that set ``SO_REUSEADDR`` listen on the port from now on. Call it when the
        program that is to listen there is started, not earlier."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._opened = self.next_look = time.monotonic()

    def leave_to_program(self) -> None:
        """Open the port, and keep it bound in the program by which this process is replaced."""
        self.open_to_program()
        self._socket.set_inheritable(True)

    def find_foreign_uid(self) -> int | None:
        """Return the uid of another account that listens on the port; None if there is none, or if
        the kernel does not provide this information."""
        begun, uid, own_listens = time.monotonic(), None, False
        with contextlib.suppress(OSError):
            uid, own_listens = port_listeners.find_foreign_uid(self.number)
        now = time.monotonic()
        pause_s = self._fastest_s * max(1.0, (now - self._opened) / _STEADY_S)
        self.next_look = now + (
            _SLOWEST_S if own_listens else min(_SLOWEST_S, max(pause_s, _SHARE * (now - begun)))
        )
        return uid

    def close(self) -> None:
        """Release the port, which the kernel may then give to other programs."""
        self.next_look = None
        self._socket.close()


def _draw_ports() -> Iterator[int]:
    """Yield ports at random, outside the range from which the kernel gives ports to connections and
    to programs that ask for any port. Where the range leaves few, all ports count, because the
    kernel gives no port away that is bound."""
    low, high = _read_kernel_range()
    parts: Sequence[range] = (
        range(_FIRST, max(_FIRST, low)),
        range(max(_FIRST, high + 1), _LAST + 1),
    )
    if sum(map(len, parts)) < _FEWEST:
        parts = (range(_FIRST, _LAST + 1),)
    count = sum(map(len, parts))
    for _ in range(_TRIES):
        chosen = int.from_bytes(os.urandom(8), "big") % count
        for part in parts:
            if chosen < len(part):
                yield part[chosen]
                break
            chosen -= len(part)


def _read_kernel_range() -> tuple[int, int]:
    try:
        with open(_RANGE, encoding="ascii") as file:
            low, high = map(int, file.read().split())
    except (OSError, ValueError):
        return _DEFAULT_RANGE
    return low, high


def open_listener(host: str = "") -> socket.socket:
    """Return a socket that listens on a port of the kernel's choice, at the IPv4 address ``host`` or,
    if it is empty, at all IPv4 and IPv6 addresses.

    It lacks ``SO_REUSEADDR``, with which another account could listen first, between its binding
    and its listening.

    Raises:
        OSError: this machine does not have the address.
    """
    listener = _bind_port(0, host)
    listener.listen(_BACKLOG)
    return listener


def _bind_port(number: int, host: str = "") -> socket.socket:
    """Return a socket bound to the port, as ``open_listener`` does. Raises ``OSError``."""
    if not host and socket.has_dualstack_ipv6():
        bound = socket.socket(socket.AF_INET6)
        try:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind(("::", number))
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE:
                raise
            # The kernel supports IPv6, but this machine has no such address.
        else:
            return bound
    bound = socket.socket()
    try:
        bound.bind((host, number))
    except OSError:
        bound.close()
        raise
    return bound
