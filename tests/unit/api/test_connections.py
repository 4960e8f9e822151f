"""Deadlines and numbers of the API's connections, over sockets, with a clock of the test's own."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from typing_extensions import override
from uvicorn.server import ServerState
from websockets.asyncio.client import connect

from aitne.api.connections import (
    ClientTransport,
    ConnectionLimits,
    OpenConnections,
    identify_connection,
)
from aitne.api.http_connection import (
    BODY_BYTES,
    BODY_S,
    CLOSED_S,
    HEADER_S,
    UNREAD_S,
    HttpConnection,
    WebSocketConnection,
)
from aitne.api.tls_listener import TlsListener
from aitne.core.errors import RateLimited
from tests.support.certificates import Authority

PLENTY = ConnectionLimits(total=100, per_network=100, per_user=100)
HERE, OTHER = "127.0.0.1", "127.0.0.2"
HOUR = 3_600
BODY = 1 << 20


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


HALF = request("/page").removesuffix(b"\r\n")
UPLOAD = request("/upload", f"Content-Length: {BODY}", method="PUT")


def on_uvloop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in the event loop of the API's process: with TLS, the order of its callbacks matters."""

    @wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        uvloop.run(test(*arguments, **fixtures))

    return run


class Api:
    """A server with the API's connections in front of a small application."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.now = 0.0
        self.connections = OpenConnections(limits, lambda: self.now)
        self.port = 0
        self.clients: list[Client] = []
        self.bodies: list[bytes] = []
        self.made = self.arrived = 0
        """Connections and bytes that have reached the server."""
        self.reads = asyncio.Event()
        """Set while the application reads bodies."""
        self.reads.set()
        self.more = asyncio.Event()
        """Set to send the rest of a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": (await receive())["text"]})
            return
        status, path = 200, scope["path"]
        if path.startswith("/user/"):
            try:
                identify_connection(scope, path.removeprefix("/user/"))
            except RateLimited:
                status = 429
        if path == "/upload":
            await self.reads.wait()
            body, more = b"", True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
            self.bodies.append(body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        if path in ("/stream", "/user/streams"):
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await self.more.wait()
        while path == "/flood":
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        await send({"type": "http.response.body", "body": b"ended"})

    def advance(self, seconds: float) -> None:
        """Let time pass, which the server notices once a second."""
        for _ in range(int(seconds)):
            self.now += 1
            self.connections.close_late_connections()

    async def open(self, beginning: bytes = b"", address: str = HERE) -> Client:
        """Open a connection from an address with the beginning of a request, and wait until it has arrived."""
        made = self.made + 1
        client = Client(
            self, *await asyncio.open_connection(HERE, self.port, local_addr=(address, 0))
        )
        self.clients.append(client)
        await until(lambda: self.made >= made)
        await client.send(beginning)
        return client


class Client:
    """The client's end of a connection."""

    def __init__(
        self, api: Api, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._api, self._reader, self.writer = api, reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait until they have arrived."""
        expected = self._api.arrived + len(data)
        self.writer.write(data)
        await until(lambda: self._api.arrived >= expected)

    async def heard(self) -> bytes:
        """Return what comes from the server next; empty if it has closed the connection."""
        try:
            return await self._reader.read(1 << 16)
        except ConnectionResetError:
            return b""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    limits: ConnectionLimits = PLENTY,
    *,
    proxies: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Api]:
    """Serve the application on loopback within the context."""
    api = Api(limits)

    class Observed(HttpConnection):
        @override
        def count_connection(self, transport: ClientTransport, address: str | None) -> None:
            super().count_connection(transport, address)
            api.made += 1

        @override
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            api.arrived += len(data)

    http = partial(Observed, api.connections, lambda address: address in proxies)
    config = uvicorn.Config(
        api,
        http=cast(type[HttpConnection], http),
        ws=WebSocketConnection,
        lifespan="off",
        log_config=None,
    )
    config.load()
    make = partial(http, config=config, server_state=ServerState(), app_state={})
    loop = asyncio.get_running_loop()
    listener = socket.create_server((HERE, 0))
    api.port = listener.getsockname()[1]
    if tls is None:
        server: Any = await loop.create_server(make, sock=listener)
    else:
        server = TlsListener(listener, tls, make, backlog=100)
    try:
        yield api
    finally:
        api.more.set()
        api.reads.set()
        for client in api.clients:
            client.writer.close()
        await until(lambda: not len(api.connections))
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("beginning", [b"", HALF])
@on_uvloop
async def test_connection_without_a_whole_header_is_closed(beginning: bytes) -> None:
    async with serving() as api:
        late = await api.open(beginning)
        api.advance(HEADER_S - 1)
        prompt = await api.open(HALF)
        await prompt.send(b"\r\n")
        assert b"ended" in await prompt.heard()
        api.advance(2)
        assert await late.heard() == b""


@on_uvloop
async def test_second_request_of_a_connection_has_a_deadline_of_its_own() -> None:
    async with serving() as api:
        client = await api.open(request("/page"))
        assert b"ended" in await client.heard()
        api.advance(3)
        await client.send(HALF)
        api.advance(HEADER_S - 1)
        await client.send(b"\r\n")
        assert b"ended" in await client.heard()
        await client.send(HALF)
        api.advance(HEADER_S + 1)
        assert await client.heard() == b""


@on_uvloop
async def test_slow_body_is_refused_with_a_reason() -> None:
    async with serving() as api:
        client = await api.open(UPLOAD)
        for _ in range(5):
            await client.send(bytes(BODY_BYTES))
            api.advance(BODY_S)
        await client.send(bytes(BODY_BYTES - 1))
        api.advance(BODY_S)
        head, _, body = (await client.heard()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["code"] == "too_slow"
        assert await client.heard() == b""


@pytest.mark.parametrize("expect", [False, True])
@on_uvloop
async def test_body_that_the_api_does_not_read_yet_has_no_deadline(expect: bool) -> None:
    more = ["Expect: 100-continue"] if expect else []
    async with serving() as api:
        api.reads.clear()
        head = request("/upload", f"Content-Length: {BODY}", *more, method="PUT")
        client = await api.open(head)
        if not expect:
            # The API reads up to a limit, and leaves the rest in the socket.
            client.writer.write(bytes(BODY))
            await until(lambda: api.arrived > len(head) + (1 << 16))
        api.advance(HOUR)
        api.reads.set()
        if expect:
            assert (await client.heard()).startswith(b"HTTP/1.1 100 ")
            client.writer.write(bytes(BODY))
        assert b"ended" in await client.heard()


@on_uvloop
async def test_rest_of_a_refused_body_is_not_awaited_for_long() -> None:
    async with serving() as api:
        client = await api.open(request("/page", f"Content-Length: {BODY}", method="PUT"))
        assert b"ended" in await client.heard()
        for _ in range(int(HEADER_S)):
            await client.send(bytes(BODY_BYTES))
            api.advance(1)
        api.advance(1)
        assert await client.heard() == b""


@on_uvloop
async def test_second_request_that_arrives_early_keeps_its_body() -> None:
    async with serving() as api:
        second = request("/upload", "Content-Length: 4", method="PUT") + b"body"
        client = await api.open(request("/stream") + second)
        assert b"begun" in await client.heard()
        api.advance(HOUR)
        api.more.set()
        answers = b""
        while answers.count(b"ended") < 2:
            answers += await client.heard()
        assert api.bodies == [b"body"]


@on_uvloop
async def test_long_responses_are_not_ended() -> None:
    async with serving() as api:
        stream = await api.open(request("/stream"))
        assert b"begun" in await stream.heard()
        async with connect(f"ws://{HERE}:{api.port}/socket", proxy=None) as websocket:
            api.advance(HOUR)
            await websocket.send("hello")
            assert await websocket.recv() == "hello"
        api.more.set()
        assert b"ended" in await stream.heard()


@on_uvloop
async def test_response_that_is_not_read_is_ended() -> None:
    async with serving() as api:
        client = await api.open(request("/flood"))
        transport = cast(asyncio.Transport, next(iter(api.connections)).transport)
        await until(lambda: transport.get_write_buffer_size() > 1 << 16)
        api.advance(UNREAD_S - 1)
        assert len(api.connections) == 1
        api.advance(2)
        await until(lambda: not len(api.connections))
        client.writer.close()


@on_uvloop
async def test_end_of_a_response_that_is_not_read_is_dropped() -> None:
    async with serving() as api:
        client = await api.open(request("/stream"))
        transport = cast(asyncio.Transport, next(iter(api.connections)).transport)
        while not transport.get_write_buffer_size():
            transport.write(bytes(1 << 16))
            await asyncio.sleep(0.001)
        transport.close()
        api.advance(CLOSED_S + 2)
        await until(lambda: not len(api.connections))
        client.writer.close()


@on_uvloop
async def test_oldest_unfinished_request_of_a_network_makes_room() -> None:
    async with serving(ConnectionLimits(total=100, per_network=3, per_user=9)) as api:
        other = await api.open(HALF, OTHER)
        stream = await api.open(request("/stream"))
        assert b"begun" in await stream.heard()
        first, second = await api.open(HALF), await api.open(HALF)
        third = await api.open(HALF)
        assert await first.heard() == b""
        for client in (other, second, third):
            await client.send(b"\r\n")
            assert b"ended" in await client.heard()


@on_uvloop
async def test_network_whose_connections_are_all_served_gets_no_more() -> None:
    async with serving(ConnectionLimits(total=100, per_network=2, per_user=9)) as api:
        for _ in range(2):
            assert b"begun" in await (await api.open(request("/stream"))).heard()
        assert await (await api.open()).heard() == b""
        elsewhere = await api.open(request("/page"), OTHER)
        assert b"ended" in await elsewhere.heard()


@on_uvloop
async def test_users_are_served_when_all_connections_are_taken() -> None:
    async with serving(ConnectionLimits(total=4, per_network=3, per_user=9)) as api:
        user = await api.open(request("/user/ada"))
        assert b"ended" in await user.heard()
        held = [await api.open(HALF, f"127.0.0.{number}") for number in range(2, 7)]
        assert [await client.heard() for client in held[:2]] == [b"", b""]
        new = await api.open(request("/user/bob"), OTHER)
        assert b"ended" in await new.heard()
        await user.send(request("/user/ada"))
        assert b"ended" in await user.heard()


@on_uvloop
async def test_connections_of_one_user_are_limited() -> None:
    async with serving(ConnectionLimits(total=100, per_network=50, per_user=2)) as api:
        for number in range(2):
            stream = await api.open(request("/user/streams"), f"127.0.0.{number + 2}")
            assert b"begun" in await stream.heard()
        third = await api.open(request("/user/streams"))
        assert (await third.heard()).startswith(b"HTTP/1.1 429 ")
        other = await api.open(request("/user/ada"))
        assert b"200 OK" in await other.heard()
        stream.writer.close()
        await until(lambda: len(api.connections) == 3)
        await other.send(request("/user/streams"))
        assert b"begun" in await other.heard()


@on_uvloop
async def test_connections_of_a_trusted_proxy_are_not_counted_by_network() -> None:
    limits = ConnectionLimits(total=100, per_network=1, per_user=9)
    async with serving(limits, proxies=(OTHER,)) as api:
        clients = [await api.open(HALF, OTHER) for _ in range(5)]
        for client in clients:
            await client.send(b"\r\n")
            assert b"ended" in await client.heard()


@on_uvloop
async def test_websocket_counts_until_it_ends() -> None:
    async with serving(ConnectionLimits(total=100, per_network=1, per_user=9)) as api:
        async with connect(f"ws://{HERE}:{api.port}/socket", proxy=None):
            assert await (await api.open()).heard() == b""
        await until(lambda: not len(api.connections))
        assert b"ended" in await (await api.open(request("/page"))).heard()


@on_uvloop
async def test_tls_handshakes_have_the_same_limits(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("portal", HERE))
    trust = ssl.create_default_context(cafile=str(authority.path))
    async with serving(ConnectionLimits(total=100, per_network=3, per_user=9), tls=context) as api:
        held = [await api.open() for _ in range(4)]
        assert await held[0].heard() == b""
        for _ in range(5):
            # The request is sent with the end of the handshake.
            reader, writer = await asyncio.open_connection(HERE, api.port, ssl=trust)
            writer.write(request("/page", "Connection: close"))
            assert b"ended" in await reader.read()
            writer.close()
        url = f"wss://{HERE}:{api.port}/socket"
        async with connect(url, ssl=trust, proxy=None) as websocket:
            api.advance(HOUR)
            await websocket.send("hello")
            assert await websocket.recv() == "hello"
        nonsense = await asyncio.open_connection(HERE, api.port)
        nonsense[1].write(HALF)
        assert b"HTTP" not in await nonsense[0].read()
        nonsense[1].close()
        assert [await client.heard() for client in held] == [b""] * 4
        await until(lambda: not len(api.connections))
