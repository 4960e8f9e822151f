"""Stop processes of the platform with SIGSTOP at random moments of a storm.

A process that hangs stays stopped for 45 s, unless the supervisor replaces it before. Different
processes may hang at the same time, and a kill may end a hang early.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event, Lock, Thread

from aitne.local_system import hung_restart_records
from tests.support.platform import RunningPlatform

PROCESSES = ("api", "controller", "hub", "proxy")
STOPPED_S = 45.0
_POLL_S = 0.2


@dataclass(slots=True)
class HangCounts:
    """Counts of the hangs that are over, by the event that ended them."""

    processes: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    """Hangs that the supervisor ended: it killed the process as hung and started it again."""
    killed: int = 0
    """Hangs that ended early because the process was killed by the storm."""
    longest_s: float = 0.0
    """The longest time from SIGSTOP until the supervisor had started the process again."""

    def summary(self) -> str:
        """Describe the hangs in one line."""
        number = self.processes.total()
        processes = ", ".join(f"{count} of {name}" for name, count in self.processes.most_common())
        continued = number - self.replaced - self.killed
        return (
            f"hangs: {number} ({processes}); {self.replaced} replaced by the supervisor, after "
            f"{self.longest_s:.1f} s at most, {self.killed} ended by a kill, {continued} by SIGCONT"
        )


class Hangs:
    """Hangs of random processes, each at a random moment of the storm's progress."""

    def __init__(
        self,
        platform: RunningPlatform,
        number: int,
        *,
        last_moment: float,
        progress: Callable[[], int],
        complete: int,
        over: Event,
        random: Random,
    ) -> None:
        self.counts = HangCounts()
        self._platform = platform
        self._progress = progress
        self._complete = complete
        self._over = over
        self._lock = Lock()
        moments = sorted(random.uniform(0, last_moment) for _ in range(number))
        self._plan = [(moment, random.choice(PROCESSES)) for moment in moments]

    def run(self) -> None:
        """Let the planned processes hang and return when the last hang is over.

        A process begins its next hang after its previous one. Once the progress is complete, each
        hang begins after all others. The hangs of an aborted storm end at once and are not counted.
        """
        threads: dict[str, Thread] = {}
        for moment, name in self._plan:
            while self._progress() < moment and not self._over.wait(_POLL_S):
                pass
            complete = self._progress() >= self._complete
            for process, thread in threads.items():
                if complete or process == name:
                    thread.join()
            threads[name] = Thread(target=self._hang, args=(name,), daemon=True)
            threads[name].start()
        for thread in threads.values():
            thread.join()

    def _hang(self, name: str) -> None:
        """Stop the process, once it is seen to run, until it is replaced or the time is over."""
        while not self._over.is_set():
            restarts = self._hung_restarts(name)
            pid = self._platform.pids().get(name)
            if pid is None:
                time.sleep(_POLL_S)
                continue
            try:
                # The descriptor never refers to another process that has the same pid later.
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                signal.pidfd_send_signal(process, signal.SIGSTOP)
                replaced_s = self._wait_replaced(name, pid)
            except ProcessLookupError:
                continue
            finally:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGCONT)
                os.close(process)
            if replaced_s is None and self._over.is_set():
                return
            with self._lock:
                self._count(name, replaced_s, self._hung_restarts(name) > restarts)
            return

    def _wait_replaced(self, name: str, pid: int) -> float | None:
        """Return the seconds until another process has the name; None if the time ends before."""
        stopped = time.monotonic()
        while not self._over.wait(_POLL_S):
            replaced = self._platform.pids().get(name) not in (None, pid)
            elapsed_s = time.monotonic() - stopped
            if elapsed_s >= STOPPED_S:
                return None
            if replaced:
                return elapsed_s
        return None

    def _count(self, name: str, replaced_s: float | None, as_hung: bool) -> None:
        self.counts.processes[name] += 1
        if replaced_s is not None and as_hung:
            self.counts.replaced += 1
            self.counts.longest_s = max(self.counts.longest_s, replaced_s)
        elif replaced_s is not None:
            self.counts.killed += 1

    def _hung_restarts(self, name: str) -> int:
        """Return how often the supervisor has recorded the process as hung."""
        return hung_restart_records.read_restart_counts(self._platform.data_dir / "run").get(
            name, 0
        )
