"""One of the ranks that ``runtime.benchmarks.rank_order`` measures."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Sequence

FIRST_PORT = 29_500
_CONNECT_S = 120.0
_BUFFER = 1 << 16


class Ring:
    """Connections of a rank to the next and from the previous one of a ring of addresses."""

    def __init__(
        self, listener: socket.socket, ring: Sequence[str], address: str, port: int
    ) -> None:
        self.size = len(ring)
        following = ring[(ring.index(address) + 1) % self.size]
        self._next = _connect(following, port)
        self._previous = listener.accept()[0]
        for each in (self._next, self._previous):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setblocking(False)

    def step(self, count: int) -> float:
        """Exchange ``count`` bytes in each phase of a ring all-reduce; return the seconds."""
        began = time.perf_counter()
        for _ in range(2 * (self.size - 1)):
            self._exchange(memoryview(bytes(count)))
        return time.perf_counter() - began

    def _exchange(self, data: memoryview) -> None:
        left, missing = data, len(data)
        while left or missing:
            readable, writable, _ = select.select(
                [self._previous] if missing else [], [self._next] if left else [], []
            )
            if readable:
                received = self._previous.recv(min(_BUFFER, missing))
                if not received:
                    raise ConnectionError("the previous rank has ended")
                missing -= len(received)
            if writable:
                left = left[self._next.send(left[:_BUFFER]) :]


def _connect(address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_S
    while True:
        try:
            return socket.create_connection((address, port), timeout=_CONNECT_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main(rings: Sequence[Sequence[str]], address: str, count: int, pairs: int) -> None:
    """Print the seconds of a step in each of the rings in turn, ``pairs`` times, as JSON."""
    listeners = [
        socket.create_server((address, FIRST_PORT + number)) for number in range(len(rings))
    ]
    joined = [
        Ring(listener, ring, address, FIRST_PORT + number)
        for number, (listener, ring) in enumerate(zip(listeners, rings, strict=True))
    ]
    for ring in joined:  # the first steps open TCP's windows
        ring.step(count)
    seconds = [[0.0] * len(joined) for _ in range(pairs)]
    for turn, pair in enumerate(seconds):
        for number in sorted(range(len(joined)), reverse=turn % 2 == 1):
            joined[number].step(1)  # all ranks begin together
            pair[number] = joined[number].step(count)
    print(json.dumps(seconds))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(given["rings"], given["address"], given["bytes"], given["pairs"])
