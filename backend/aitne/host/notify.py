"""Client of systemd's notification protocol (sd_notify), for a unit with ``Type=notify`` and
``WatchdogSec=``.
"""

from __future__ import annotations

import os
import socket

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Environment variables that systemd sets for the main process; they are not passed to the
platform's processes.
"""


def notify(state: str) -> None:
    """Send a state to systemd: ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``. Do nothing if the
    process was not started by systemd.

    Raises:
        OSError: systemd's socket is missing or full.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as line:
        line.sendto(state.encode(), address)
