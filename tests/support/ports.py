"""Ports for platforms that tests start."""

from __future__ import annotations

import os
import random
import socket

PORTS = range(23_000, 24_000)


def free_ports(count: int = 5) -> int:
    """Return the first of so many consecutive free ports on loopback.

    Each process of pytest-xdist has a range of its own, as a port stays free until its platform
    listens.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = len(PORTS) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    mine = PORTS[worker * share : (worker + 1) * share]
    for _ in range(200):
        first = random.randrange(mine.start, mine.stop - count)
        if all(map(_free, range(first, first + count))):
            return first
    raise RuntimeError(f"No {count} consecutive ports are free in {mine}.")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
