"""A thousand listeners in one process, each with nothing more than a socket.

``python -m benchmarks.sse_clients PORT COUNT`` reads a token from the first line of stdin, says
``ready`` when all have had their ``hello``, listens until stdin ends, and prints what it heard: per
event the seconds from the event's own time to its arrival at each listener.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from benchmarks.processes import BenchmarkError

TIMEOUT_S = 120.0
AT_ONCE = 50


class Ears:
    """The events that all listeners of this process received."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.lags: dict[int, list[float]] = {}
        self.greeted = 0
        self.refused: str | None = None
        self.resets = 0
        self.lost = 0

    def event(self, frame: bytes, now: float) -> None:
        """Note one event that one listener got; the first of its kind is read whole."""
        number = int(frame[4 : frame.index(b"\n")])
        if number not in self.times:
            data = json.loads(frame[frame.index(b"\ndata: ") + 7 :])
            self.times[number] = datetime.fromisoformat(data["time"]).timestamp()
            self.lags[number] = []
        self.lags[number].append(now - self.times[number])


class Listener(asyncio.Protocol):
    """A client of one event stream."""

    def __init__(self, ears: Ears, request: bytes) -> None:
        self._ears = ears
        self._request = request
        self._rest = b""
        self._body = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By its name alone: uvloop's transports are of no class of asyncio's.
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        data = self._rest + data
        if not self._body:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            if b" 200 " not in head[:20]:
                self._ears.refused = head.decode(errors="replace")
            self._body = True
        *frames, self._rest = data.split(b"\n\n")
        for frame in frames:
            # Chunked transfer puts a length before what each chunk begins with.
            start = frame.find(b"id: ")
            kind = frame[frame.find(b"event: ") + 7 :]
            if start < 0:
                continue
            if kind.startswith(b"hello"):
                self._ears.greeted += 1
            elif kind.startswith(b"reset"):
                self._ears.resets += 1
            else:
                self._ears.event(frame[start:], now)

    def connection_lost(self, _: Exception | None) -> None:
        self._ears.lost += 1


async def listen(port: int, count: int, token: str) -> dict[str, Any]:
    """Connect, listen until stdin ends, sum up."""
    ears = Ears()
    request = (
        f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
    ).encode()
    loop = asyncio.get_running_loop()
    transports: list[asyncio.Transport] = []
    async with asyncio.timeout(TIMEOUT_S):
        while len(transports) < count:
            for _ in range(min(AT_ONCE, count - len(transports))):
                transport, _ = await loop.create_connection(
                    lambda: Listener(ears, request), "127.0.0.1", port
                )
                transports.append(transport)
            while ears.greeted < len(transports):
                if ears.refused is not None:
                    raise SystemExit(f"a listener was refused: {ears.refused}")
                await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    lost = ears.lost
    for each in transports:
        each.abort()
    return {
        "lags": {number: [round(lag, 5) for lag in lags] for number, lags in ears.lags.items()},
        "resets": ears.resets,
        "lost": lost,
    }


@contextmanager
def listening(port: int, count: int, token: str) -> Iterator[None]:
    """Run a process with so many listeners during the block; their events are not evaluated."""
    argv = [sys.executable, "-m", __spec__.name, str(port), str(count)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{token}\n")
            process.stdin.flush()
            if process.stdout.readline().strip() != "ready":
                raise BenchmarkError("the listeners did not get their streams")
            yield
        finally:
            process.kill()


def main() -> None:
    """Listen on uvloop if it is installed, and otherwise on asyncio's event loop."""
    port, count = map(int, sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    token = sys.stdin.readline().strip()
    try:
        import uvloop
    except ImportError:
        heard = asyncio.run(listen(port, count, token))
    else:
        heard = uvloop.run(listen(port, count, token))
    print(json.dumps(heard))


if __name__ == "__main__":
    main()
