"""Clients that owe the API the rest of what they began to send, in a process of their own.

    python -m tests.fault.half_open_clients {headers,handshakes,uploads} PORT COUNT FIRST_ADDRESS

`headers` opens connections from several addresses of loopback with the beginning of a header, `handshakes` sends nothing,
so that a TLS handshake does not begin. `uploads` sends all
but the end of the list of a tree with each, as the user of the token in TOKEN, and then a byte every few seconds.
Connections that the API closes are opened again. It prints `open` when all were opened once, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from itertools import cycle

from aitne.core.tree_document import MOST_BYTES

ADDRESSES = 8
AT_ONCE = 64
AGAIN_S = 5.0
_SENT_S = 2.0
UPLOAD_BYTES = MOST_BYTES - 90_000
_BEGINNINGS = {"headers": b"GET / HTTP/1.1\r\nHost: half-open\r\n", "handshakes": b""}


async def main(kind: str, port: int, count: int, first: int) -> None:
    """Open the connections, and keep their number until the process is ended."""
    addresses = cycle(f"127.0.1.{first + number}" for number in range(ADDRESSES))
    opening = asyncio.Semaphore(AT_ONCE)
    connect = _slow_upload if kind == "uploads" else partial(_hold, _BEGINNINGS[kind])
    opened = [asyncio.Event() for _ in range(count)]

    async def keep(event: asyncio.Event) -> None:
        while True:
            with suppress(OSError):
                await connect(port, next(addresses), opening, event)
            event.set()
            await asyncio.sleep(AGAIN_S)

    clients = [asyncio.create_task(keep(event)) for event in opened]
    for event in opened:
        await event.wait()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.gather(*clients)


async def _hold(
    beginning: bytes, port: int, address: str, opening: asyncio.Semaphore, opened: asyncio.Event
) -> None:
    async with opening:
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((address, 0))
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, beginning)
        except OSError:
            connection.close()
            raise
    opened.set()
    try:
        await loop.sock_recv(connection, 1)
    finally:
        connection.close()


async def _slow_upload(
    port: int, address: str, opening: asyncio.Semaphore, opened: asyncio.Event
) -> None:
    head = (
        f"PUT /api/v1/trees/{'0' * 64} HTTP/1.1\r\nHost: half-open\r\n"
        f"Authorization: Bearer {os.environ['TOKEN']}\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        async with opening:
            writer.write(head.encode() + bytes(UPLOAD_BYTES - 1_000))
            with suppress(TimeoutError):
                async with asyncio.timeout(_SENT_S):
                    await writer.drain()
        opened.set()
        while not reader.at_eof() and not await _answered(reader):
            writer.write(b" ")
    finally:
        writer.transport.abort()


async def _answered(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(AGAIN_S):
            return bool(await reader.read(1))
    except TimeoutError:
        return False


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
