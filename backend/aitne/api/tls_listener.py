"""Listener for connections with TLS that counts each connection from its beginning.

A server of asyncio knows a connection only after its TLS handshake, which a client may never begin.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from aitne.api.http_connection import HEADER_S, HttpConnection

log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Maximum number of connections that are accepted before other work of the event loop is done."""
_AGAIN_S = 1.0


class TlsListener:
    """Server that accepts connections on ``listener`` until it is closed. ``make`` creates a connection's protocol."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], HttpConnection],
        *,
        backlog: int,
    ) -> None:
        self._listener = listener
        self._context = context
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        listener.listen(backlog)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Stop accepting connections, and end the handshakes in progress."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Wait until the handshakes have ended."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no memory or no descriptor is left
                log.error("Connections cannot be accepted: %s", error)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_AGAIN_S, self._accept_again)
                return
            connection.setblocking(False)
            http = self._make()
            handshake = self._loop.create_task(self._shake_hands(http, connection))
            self._handshakes.add(handshake)
            handshake.add_done_callback(partial(self._finish_handshake, http, connection))
            http.count_connection(_Handshake(handshake), str(address[0]))

    def _accept_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    async def _shake_hands(self, http: HttpConnection, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: http, connection, ssl=self._context, ssl_handshake_timeout=HEADER_S
            )
        except OSError as error:
            log.debug("A TLS handshake failed: %s", error)

    def _finish_handshake(
        self, http: HttpConnection, connection: socket.socket, handshake: asyncio.Task[None]
    ) -> None:
        self._handshakes.discard(handshake)
        if http.transport is None:  # also if the task was cancelled before it began
            http.release()
            connection.close()


class _Handshake:
    """TLS handshake in progress, in the place of the transport that it results in."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def abort(self) -> None:
        self._task.cancel()

    def is_closing(self) -> bool:
        return self._task.cancelling() > 0
