"""Start of the user's programs, forwarding of signals, and collection of exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from aitne.agent.program_launcher import ProgramLauncher

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGQUIT,
    signal.SIGCONT,
)
EVERY_SIGNAL = [number for number in range(1, 32) if number not in (9, 19)]
_LOOK_S = 0.01
NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of a shell for a program that does not exist, or that cannot be run."""


def _parse_signal(name: str | None) -> int | None:
    """Return the number of a signal such as ``USR1``, ``SIGUSR1`` or ``10``; None for other texts."""
    if name is None or name.isdecimal():
        return None if name is None else int(name)
    return getattr(signal, f"SIG{name.removeprefix('SIG')}", None)


class Programs:
    """Child processes of the agent, which it starts, signals and waits for.

    Each child leads a process group of its own; the output of all children is the log.
    """

    def __init__(self) -> None:
        self.stop_signal: int | None = None
        """First of SIGTERM, SIGINT and SIGHUP that the agent received, which ask the job to end;
        None if none was."""
        self.stop_requested = False
        """Whether a signal was received that may ask the job to end. In addition to ``stop_signal``
        that can be the early warning signal from the job file."""
        self.launcher: ProgramLauncher | None = None
        """Launcher that starts each program in a container or with limits; None if programs are
        started directly."""
        self.leader_only = False
        """Whether the started program forwards signals itself, so that its group must not receive
        them too."""
        self.script_signal: int | None = None
        """Signal that the started program alone gets, and not its group; None: there is none."""
        self._received: list[int] = []
        self._live: set[int] = set()
        self._asked: set[int] = set()
        """PIDs of short helper programs of the agent, such as git."""
        self._lock = threading.RLock()

    def forward_signals(self, script_signal: str | None = None) -> None:
        """Forward signals to the programs from now on; they no longer end the agent directly.
        ``script_signal`` is a signal's name or number, see ``script_signal`` of this class.
        """
        self.script_signal = _parse_signal(script_signal)
        for number in _FORWARDED:
            signal.signal(number, self._forward_signal)

    def _forward_signal(self, number: int, _frame: object) -> None:
        self._received.append(number)
        self.stop_requested = self.stop_requested or number != signal.SIGCONT
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) and self.stop_signal is None:
            self.stop_signal = number
        self.send_signal(number)

    def send_signal(self, number: int, pids: Collection[int] | None = None) -> None:
        """Send the signal ``number`` to the process groups of all programs that have not been
        collected yet, or of those among ``pids``."""
        alone = self.leader_only or number == self.script_signal
        signal_it = os.kill if alone and number != signal.SIGKILL else os.killpg
        with self._lock:
            for pid in self._live if pids is None else self._live.intersection(pids):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal_it(pid, number)

    def start(
        self,
        argv: Sequence[str],
        stdin: int | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        direct: bool = False,
    ) -> int:
        """Start a program in the agent's working directory and return its PID.

        ``environment`` replaces the agent's own. ``direct``: the program starts on the node, in no
        container and without limits.

        Raises:
            OSError: there is no such program, or it cannot be run.
        """
        first: tuple[int, int, int] | tuple[int, int, str, int, int]
        if stdin is None:
            first = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        else:
            first = (os.POSIX_SPAWN_DUP2, stdin, 0)
        environment = os.environ if environment is None else environment
        if self.launcher is not None and not direct:
            argv, environment = self.launcher.argv(argv), self.launcher.environment()
        before = len(self._received)
        with self._lock:
            pid = os.posix_spawnp(
                argv[0],
                list(argv),
                environment,
                file_actions=[first],
                setpgroup=0,
                setsigmask=[],
                setsigdef=EVERY_SIGNAL,
            )
            self._live.add(pid)
        # Signals during the start did not reach the program; a request to end stays valid.
        missed = self._received[before:]
        if self.stop_signal is not None and self.stop_signal not in missed:
            missed.insert(0, self.stop_signal)
        for number in missed:
            self.send_signal(number)
        return pid

    def run_helper(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout_s: float,
        most_bytes: int,
        counted_bytes: int,
    ) -> tuple[bytes, int, bool]:
        """Run a short helper program of the agent, such as git. Return its output, the length of
        the output, and whether it ended by itself. Call it in a helper thread.

        At most ``most_bytes`` of the output are returned, its length is counted up to
        ``counted_bytes``, and the program is ended after ``timeout_s`` seconds. Its exit code is
        collected by the thread that waits for the job's programs.

        Raises:
            OSError: there is no such program, or it cannot be run.
        """
        import select

        reader, writer = os.pipe()
        deadline, output, length, pid = time.monotonic() + timeout_s, b"", 0, -1
        try:
            try:
                with self._lock:
                    pid = os.posix_spawnp(
                        argv[0],
                        list(argv),
                        environment,
                        file_actions=[
                            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                            (os.POSIX_SPAWN_DUP2, writer, 1),
                            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                        ],
                        setpgroup=0,
                        setsigmask=[],
                        setsigdef=EVERY_SIGNAL,
                    )
                    self._asked.add(pid)
            finally:
                os.close(writer)
            while (remaining_s := deadline - time.monotonic()) > 0:
                if not select.select([reader], [], [], remaining_s)[0]:
                    break
                part = os.read(reader, 1 << 16)
                if not part:
                    return output, length, True
                length += len(part)
                output += part[: most_bytes - len(output)]
                if length > counted_bytes:
                    return output, length, True
            return output, length, False
        finally:
            os.close(reader)
            self._kill_if_terminated(pid)

    def _kill_if_terminated(self, pid: int) -> None:
        with self._lock:
            if pid in self._asked:
                self._asked.discard(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)

    def wait(self, pid: int) -> int:
        """Wait until the process ``pid`` has ended and return its exit code, or 128 + n if it was
        ended by signal n.

        Other ended children are collected meanwhile, because orphaned processes of the job become
        children of the agent.
        """
        return self.wait_any((pid,))[1]

    def wait_any(self, pids: Collection[int]) -> tuple[int, int]:
        """Wait until one of the processes ``pids`` has ended; return its PID and its exit code, as
        ``wait`` does."""
        while True:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if child is None:
                continue
            with self._lock:  # until it is collected, its PID is not reused
                self._live.discard(child.si_pid)
                self._asked.discard(child.si_pid)
                pid, status = os.waitpid(child.si_pid, 0)
            if pid in pids:
                code = os.waitstatus_to_exitcode(status)
                return pid, code if code >= 0 else 128 - code

    def end_descendants(self, ask_s: float, kill_s: float) -> None:
        """Wait until all descendants of this process have ended, and end those that remain.

        Processes of a container runtime may outlive the program briefly to unmount file systems.
        Those that remain after ``ask_s`` seconds get SIGTERM and SIGINT, after ``kill_s`` seconds
        SIGKILL.
        """
        from aitne.agent.sampler import list_descendants

        began, term_sent = time.monotonic(), False
        while True:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            pids = list_descendants(os.getpid())
            if not pids:
                return
            waited = time.monotonic() - began
            # A server of a file system may ignore SIGTERM: see ``LaunchSpec.helpers``.
            numbers = [signal.SIGKILL] if waited > kill_s else [signal.SIGTERM, signal.SIGINT]
            if waited > kill_s or (waited > ask_s and not term_sent):
                term_sent = True
                for pid in pids:
                    for number in numbers:
                        with contextlib.suppress(OSError):
                            os.kill(pid, number)
            time.sleep(_LOOK_S)
