"""Open connections of the API: their number is limited in total, by client network and by user, below the process's
limit of open files, so that the process can always accept another one.

A connection whose client owes the rest of a request is the first to be closed when there are too many. A real client
sends its request at once, so connections that are held open without one cannot block it.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

from starlette.types import Scope

from aitne.core.errors import RateLimited

MOST = 16_384
"""Maximum number of connections however many files the process may open: each takes about 31 KB."""
_SLOT = "aitne.connection"
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Maximum numbers of open connections."""

    total: int
    per_network: int
    """Of one IPv4 address or one IPv6 network of 64 bits; those of a trusted proxy are not counted."""
    per_user: int

    @classmethod
    def for_process(cls) -> Self:
        """Return the limits that follow from this process's limit of open files. The other half is for files, the
        database and the connections to jobs.
        """
        total = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, MOST)
        return cls(total, total // 4, total // 8)


class ClientTransport(Protocol):
    """Interface of the part of ``asyncio.Transport`` that is needed here."""

    def abort(self) -> None:
        """Close the connection at once, also if its client does not read."""
        ...

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""
        ...


@dataclass(eq=False, slots=True)
class OpenConnection:
    """One open connection, which counts until it is released."""

    registry: OpenConnections
    transport: ClientTransport
    network: str | None
    check: Callable[[float], None]
    """Function that is called each second with the time, to close the connection if its client is late."""
    user: str | None = None
    """User who has sent the latest request; None: it is not known."""


class OpenConnections:
    """Registry of the open connections of one process."""

    def __init__(
        self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self._limits = limits
        self._open: dict[OpenConnection, None] = {}
        self._by_network: Counter[str] = Counter()
        self._by_user: Counter[str] = Counter()
        self._owing: dict[OpenConnection, None] = {}
        """Connections without a user whose client owes a request, the oldest first."""
        self._owing_by_network: dict[str, dict[OpenConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter(tuple(self._open))

    def admit(
        self,
        transport: ClientTransport,
        network: str | None,
        check: Callable[[float], None],
    ) -> OpenConnection | None:
        """Count a new connection and return it; None if there are too many, and ``transport`` must be closed.

        ``network`` is None for a connection from a trusted proxy, which limits those of its clients itself. If the
        network, or all of them together, have too many, the oldest one whose client owes a request is closed instead.
        """
        if network is not None and self._by_network[network] >= self._limits.per_network:
            owing = self._owing_by_network.get(network)
            if not owing:
                return None
            self._close(next(iter(owing)))
        elif len(self._open) >= self._limits.total:
            if not self._owing:
                return None
            self._close(next(iter(self._owing)))
        connection = OpenConnection(self, transport, network, check)
        self._open[connection] = None
        if network is not None:
            self._by_network[network] += 1
        self.note_owing(connection)
        return connection

    def note_owing(self, connection: OpenConnection) -> None:
        """Note that the client owes a request from now on."""
        self.note_served(connection)
        if connection.user is None and connection in self._open:
            self._owing[connection] = None
            if connection.network is not None:
                self._owing_by_network.setdefault(connection.network, {})[connection] = None

    def note_served(self, connection: OpenConnection) -> None:
        """Note that the client owes nothing."""
        self._owing.pop(connection, None)
        owing = self._owing_by_network.get(connection.network or "")
        if owing is not None:
            owing.pop(connection, None)
            if not owing:
                del self._owing_by_network[connection.network or ""]

    def identify(self, connection: OpenConnection, user: str) -> None:
        """Count the connection against the limit of ``user``, who has sent the request on it.

        Raises:
            RateLimited: the user has too many connections.
        """
        if connection.user == user or connection not in self._open:
            return
        if self._by_user[user] >= self._limits.per_user:
            raise RateLimited(
                f"You have {self._limits.per_user} open connections. Close some, or let programs use one for several "
                "requests.",
                _RETRY_S,
            )
        self._decrement_count(self._by_user, connection.user)
        connection.user = user
        self._by_user[user] += 1
        self.note_served(connection)

    def release(self, connection: OpenConnection) -> None:
        """Note that the connection has ended. A second call does nothing."""
        if connection not in self._open:
            return
        self.note_served(connection)
        del self._open[connection]
        self._decrement_count(self._by_network, connection.network)
        self._decrement_count(self._by_user, connection.user)

    def close_late_connections(self) -> None:
        """Close the connections whose clients are late. Called each second."""
        now = self.clock()
        for connection in self:
            connection.check(now)

    def _close(self, connection: OpenConnection) -> None:
        # It no longer counts, although its end is reported later.
        self.release(connection)
        connection.transport.abort()

    def _decrement_count(self, counts: Counter[str], key: str | None) -> None:
        if key is not None:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]


def attach_connection(scope: dict[str, Any], connection: OpenConnection | None) -> None:
    """Store the connection on which a request came in its scope."""
    scope[_SLOT] = connection


def identify_connection(scope: Scope, user: str) -> None:
    """Count the connection on which a request came against the limit of ``user``. Raises ``RateLimited``."""
    connection: OpenConnection | None = scope.get(_SLOT)
    if connection is not None:
        connection.registry.identify(connection, user)
