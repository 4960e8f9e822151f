"""``MASTER_PORT`` of the job's programs: the port at which the ranks meet that the user's own commands
start, such as ``torchrun``. Ranks that ``aitne-run`` starts have a port of their own.

Programs listen there at any time, so the port is open as long as commands run. Another account that
listens there could answer in place of the job's own program; the agent ends the programs when it
sees that.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from aitne.agent.outcome import START_FAILED, Ending
from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.held_ports import HeldPort
from aitne_train.launcher.port_listeners import describe_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable

NOT_READY = 120
"""Exit code: no port is free, or another account listens on the port."""
_LOOK_S = 0.001
"""Seconds between two looks for foreign listeners after the start."""
_REPEAT_S, _GRACE_S = 0.1, 5.0
"""Seconds between two signals to programs that must end, and that a container has to end before its
runtime's program is killed."""


def run_with_master_port(
    spec: Spec, programs: Programs, reporter: Reporter, run_programs: Callable[[], Ending]
) -> Ending:
    """Call ``run_programs`` with ``MASTER_PORT`` in the environment, hold the port meanwhile, and
    return the outcome."""
    try:
        port = MasterPort(programs)
    except LaunchError as error:
        reporter.start()
        return Ending(NOT_READY, START_FAILED, str(error))
    os.environ["MASTER_PORT"] = str(port.number)
    port.start_watching()
    ending = run_programs()
    port.close(failed=ending.code != 0)
    refusal = port.describe_foreign_listener(spec.node)
    return ending if refusal is None else Ending(NOT_READY, START_FAILED, refusal)


class MasterPort:
    """Port that the agent holds for the job's programs, and watches while they run.

    Args:
        programs: programs of the agent, which are ended when another account listens on the port.

    Raises:
        LaunchError: no port is free.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._held = HeldPort(_LOOK_S)
        self.number = self._held.number
        self._foreign_uid: int | None = None
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="master port", daemon=True)

    def start_watching(self) -> None:
        """Open the port for the programs, and look for foreign listeners until ``close``."""
        self._held.open_to_program()
        self._watcher.start()

    def close(self, *, failed: bool) -> None:
        """Release the port, after the programs have ended.

        If they have ``failed``, another account that listens now counts, because a program that
        finds its port in use fails.
        """
        self._closed.set()
        self._watcher.join()
        if failed and self._foreign_uid is None:
            self._foreign_uid = self._held.find_foreign_uid()
        self._held.close()

    def describe_foreign_listener(self, node: str) -> str | None:
        """Return a sentence without full stop that names the other account which listened on the
        port of the node ``node``; None if there was none."""
        if self._foreign_uid is None:
            return None
        listener = describe_foreign(self._foreign_uid, self.number, node)
        return f"{listener}, the job's MASTER_PORT: its programs were killed"

    def _watch(self) -> None:
        while (due := self._held.next_look) is not None:
            if self._closed.wait(max(0.0, due - time.monotonic())):
                return
            self._foreign_uid = self._held.find_foreign_uid()
            if self._foreign_uid is not None:
                self._end_programs()
                return

    def _end_programs(self) -> None:
        """End the programs, also those that start meanwhile, until ``close``."""
        asked_at = time.monotonic()
        while True:
            # A container would outlive the client of its runtime that is killed.
            asks = self._programs.leader_only and time.monotonic() - asked_at < _GRACE_S
            self._programs.send_signal(signal.SIGTERM if asks else signal.SIGKILL)
            if self._closed.wait(_REPEAT_S):
                return
