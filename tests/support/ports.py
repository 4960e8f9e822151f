"""Ports for platforms that tests start."""

from __future__ import annotations

import random
import socket


def free_ports(count: int = 4) -> int:
    """The first of so many consecutive free ports on loopback."""
    for _ in range(200):
        first = random.randrange(23_000, 24_000 - count)
        if all(map(_free, range(first, first + count))):
            return first
    raise RuntimeError(f"No {count} consecutive ports are free between 23000 and 24000.")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
