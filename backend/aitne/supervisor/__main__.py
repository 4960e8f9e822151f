"""``python -m aitne.supervisor RUN_DIR [--detach | --with-parent PID]``: what ``aitne up`` starts.

Exit status 0 when the platform was ended, 1 when it could not start (for the reason see
``RUN_DIR/failure``), 3 when another supervisor has this directory.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

LOCK = "supervisor.lock"
LOCKED_WITHIN_S = 2.0
"""Seconds to wait for the lock: an earlier supervisor may be about to exit."""
HELD = 3


def main(arguments: list[str]) -> int:
    """Take the lock, detach from the starting process if requested, and supervise."""
    run_dir, *options = arguments
    lock = os.open(Path(run_dir) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(lock):
        return HELD
    (Path(run_dir) / "failure").unlink(missing_ok=True)
    if options == ["--detach"]:
        # The child inherits the lock, so a process that waits for this one finds it held.
        if os.fork():
            os._exit(0)
        os.setsid()
    # asyncio works without TLS. It is not used here, and takes a quarter of the memory.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    import asyncio

    from aitne.supervisor.child import die_with
    from aitne.supervisor.plan import SupervisorPlan
    from aitne.supervisor.service import PlatformStartError, Supervisor

    if options[:1] == ["--with-parent"]:
        die_with(int(options[1]), signal.SIGTERM)
    try:
        asyncio.run(Supervisor(SupervisorPlan.read(Path(run_dir))).run())
    except PlatformStartError as error:
        (Path(run_dir) / "failure").write_text(f"{error}\n")
        return 1
    return 0


def _locked(descriptor: int) -> bool:
    give_up = time.monotonic() + LOCKED_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.05)
        else:
            return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
