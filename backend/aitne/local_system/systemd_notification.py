"""Client of systemd's notification protocol (sd_notify), for a unit with ``Type=notify`` and
``WatchdogSec=``.
"""

from __future__ import annotations

import os
import socket

_MAIN_PID = "MAINPID"
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", _MAIN_PID)
"""Environment variables that systemd sets for the processes of a unit; they are not passed to the
platform's processes.
"""


def find_reloaded_unit() -> int | None:
    """Return the PID of the main process of the systemd unit whose ``ExecReload=`` started this
    process; None if systemd did not start it for a reload.
    """
    pid = os.environ.get(_MAIN_PID, "")
    return int(pid) if "NOTIFY_SOCKET" in os.environ and pid.isdecimal() else None


def notify_systemd(state: str) -> None:
    """Send a state to systemd: ``READY=1``, ``WATCHDOG=1``, ``STOPPING=1`` or ``MAINPID=…``. Do nothing
    if the process was not started by systemd.

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
