"""Connections of the API's HTTP server, with deadlines for what their clients owe.

A client must complete the TLS handshake and the header of a request, continue its body at a minimum rate, and read what
is sent to it. Nothing else ends a connection: a response, an event stream or a WebSocket takes as long as it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from aitne.api.connections import (
    ClientTransport,
    OpenConnection,
    OpenConnections,
    attach_connection,
)
from aitne.api.problems import problem_response
from aitne.services.users.authentication_service import address_lockout_key

HEADER_S = 10.0
"""Seconds within which a client must complete the TLS handshake and the header, from the opening of the connection or
from the beginning of a further request.
"""
BODY_S, BODY_BYTES = 10.0, 10 << 10
"""Minimum number of bytes of a body in each period of so many seconds in which the API reads it."""
UNREAD_S = 60.0
"""Seconds after which a connection is closed whose client does not read a full buffer of the response."""
CLOSED_S = 10.0
"""Seconds within which a client must read the end of a response on a connection that is being closed."""


class _Stage(Enum):
    IDLE = auto()
    """Between two requests; uvicorn closes the connection after 5 s."""
    HEADER = auto()
    BODY = auto()
    SERVED = auto()
    """The request is complete, its response may not be."""


class HttpConnection(HttpToolsProtocol):
    """HTTP connection that is counted by ``connections``, and closed if its client is late."""

    def __init__(
        self, connections: OpenConnections, trusted: Callable[[str], bool], **arguments: Any
    ) -> None:
        """Create the connection; ``trusted`` returns whether an address is that of a reverse proxy, ``arguments`` are
        those of uvicorn."""
        super().__init__(**arguments)
        self._connections = connections
        self._trusted = trusted
        self._counted: OpenConnection | None = None
        self._stage = _Stage.HEADER
        self._since = connections.clock()
        """Time at which the stage, or the current period of a body, began."""
        self._body_bytes = 0
        """Bytes of the body in the current period."""
        self._unread_since: float | None = None
        self._closing_since: float | None = None

    def count_connection(self, transport: ClientTransport, address: str | None) -> None:
        """Count this connection of the client at ``address``, or close it if there are too many; None: the client of a
        UNIX socket.
        """
        network = (
            None if address is None or self._trusted(address) else address_lockout_key(address)
        )
        self._counted = self._connections.admit(transport, network, self._check_deadline)
        if self._counted is None:
            transport.abort()

    def release(self) -> None:
        """Stop counting this connection."""
        if self._counted is not None:
            self._connections.release(self._counted)

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._counted is None:
            self.count_connection(transport, None if self.client is None else self.client[0])
        else:  # it has counted since its TLS handshake began
            self._counted.transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.release()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._stage is _Stage.IDLE:
            self._enter_stage(_Stage.HEADER)
        self._body_bytes += len(data)
        super().data_received(data)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        attach_connection(self.scope, self._counted)  # type: ignore[arg-type]

    @override
    def on_headers_complete(self) -> None:
        self._enter_stage(_Stage.BODY)
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        if self._stage is _Stage.BODY:
            self._enter_stage(_Stage.SERVED)
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        if self.cycle.response_complete:  # otherwise the client has sent another request already
            self.cycle.body.clear()  # of a request that was refused
            # The rest of its body may still arrive. It gets no longer than another header would.
            self._enter_stage(_Stage.HEADER if self._stage is _Stage.BODY else _Stage.IDLE)
        super().on_response_complete()

    @override
    def handle_websocket_upgrade(self) -> None:
        self._enter_stage(_Stage.SERVED)
        super().handle_websocket_upgrade()
        socket = self.transport.get_protocol()
        if self._counted is not None and isinstance(socket, WebSocketConnection):
            socket.counted = self._counted
            self._counted.check = self._check_closing

    @override
    def pause_writing(self) -> None:
        self._unread_since = self._connections.clock()
        super().pause_writing()

    @override
    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def _enter_stage(self, stage: _Stage) -> None:
        self._stage, self._since, self._body_bytes = stage, self._connections.clock(), 0
        if self._counted is None:
            return
        if stage is _Stage.SERVED:
            self._connections.note_served(self._counted)
        else:
            self._connections.note_owing(self._counted)

    def _check_deadline(self, now: float) -> None:
        """Close the connection if its client is late."""
        self._check_closing(now)
        unread = self._unread_since is not None and now - self._unread_since > UNREAD_S
        if unread or (self._stage is _Stage.HEADER and now - self._since > HEADER_S):
            self._abort()
        elif self._stage is _Stage.BODY:
            self._check_body(now)

    def _check_body(self, now: float) -> None:
        waits = self.cycle is not None and self.cycle.waiting_for_100_continue
        if self.flow.read_paused or waits:
            self._since, self._body_bytes = now, 0
        elif now - self._since >= BODY_S:
            if self._body_bytes < BODY_BYTES:
                self._refuse_body()
            self._since, self._body_bytes = now, 0

    def _refuse_body(self) -> None:
        if self.cycle is None or self.cycle.response_started:
            self._abort()
            return
        detail = (
            f"The body arrived too slowly: at least {BODY_BYTES >> 10} KiB are expected in "
            f"{BODY_S:g} seconds. Nothing was stored; try again."
        )
        response = problem_response(408, "too_slow", detail, instance=self.scope["path"])
        lines = [b"HTTP/1.1 408 Request Timeout", b"connection: close"]
        lines += [b"%b: %b" % header for header in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()

    def _check_closing(self, now: float) -> None:
        """Abort a connection whose client does not read the end of what was sent before it is closed."""
        if self._counted is None or not self._counted.transport.is_closing():
            return
        if self._closing_since is None:
            self._closing_since = now
        elif now - self._closing_since > CLOSED_S:
            self._abort()

    def _abort(self) -> None:
        if self._counted is not None:
            self._counted.transport.abort()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """WebSocket that still counts as the HTTP connection from which it was made."""

    counted: OpenConnection | None = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self.counted is not None:
            self.counted.registry.release(self.counted)
        super().connection_lost(exc)
