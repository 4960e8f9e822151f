"""Program of the supervisor, which ``aitne up`` starts: ``python -m aitne.supervisor FOLDER
[--detach [--replace] | --main-process --replace | --with-parent PID]``.

``FOLDER`` contains the plan. With ``--replace``, the platform that runs in this folder is stopped
as soon as the processes of the new one are loaded. With ``--main-process``, the supervisor
detaches, too, and becomes the main process of its systemd unit when it replaces the earlier one.

Exit status: 0 if the platform was stopped, 1 if it could not start (the reason is in
``FOLDER/failure``), 3 if another supervisor uses this folder.
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
DETACH = "--detach"
MAIN_PROCESS = "--main-process"


def main(arguments: list[str]) -> int:
    """Lock the folder, detach from the calling process if requested, and run the supervisor; return
    the exit status.
    """
    folder, options = Path(arguments[0]), arguments[1:]
    mode = next(iter(options), "")
    replaces = "--replace" in options
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not replaces and not _acquire_lock(lock, LOCKED_WITHIN_S):
        return HELD
    (folder / "failure").unlink(missing_ok=True)
    if mode in (DETACH, MAIN_PROCESS):
        # The child inherits the lock, so a process that waits for this one finds it held.
        if os.fork():
            os._exit(0)
        os.setsid()
    # asyncio works without TLS. It is not used here, and takes a quarter of the memory.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    import asyncio

    from aitne.supervisor.child_process import set_parent_death_signal
    from aitne.supervisor.errors import PlatformStartError
    from aitne.supervisor.process_account import acting_as
    from aitne.supervisor.supervisor import Supervisor
    from aitne.supervisor.supervisor_plan import SupervisorPlan

    plan = SupervisorPlan.read(folder)
    try:
        with acting_as(plan.account):
            # A change of the account would clear it.
            if mode == "--with-parent":
                set_parent_death_signal(int(options[1]), signal.SIGTERM)
            supervisor = Supervisor(plan)
            lock_when_free = (lambda: _acquire_lock(lock, 0.0)) if replaces else None
            main_process = mode == MAIN_PROCESS
            asyncio.run(supervisor.run(replaces=lock_when_free, main_process=main_process))
    except PlatformStartError as error:
        (folder / "failure").write_text(f"{error}\n")
        return 1
    return 0


def _acquire_lock(descriptor: int, within_s: float) -> bool:
    give_up = time.monotonic() + within_s
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
