"""First node of a session or notebook with ranks: runs the app, which is the session's or runs the
notebook, and beside it the ranks of the node, in one container.

The app decides: when it ends, the ranks are ended. The end of the ranks, however, does not end the
app; it is written to ``ended-<node>.json`` in the folder of the ranks, which ``AITNE_RANKS_ENDED``
names to the app. The agent ends the ranks alone by creating the file ``stop`` in that folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import time

from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.rank_processes import NOT_FOUND, NOT_STARTED

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

STOP = "stop"
ENDED = "AITNE_RANKS_ENDED"
"""Environment variable of the app: file that exists as soon as the ranks of its node have ended."""
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
_FOLDER = "AITNE_RANKS_FOLDER"
"""Environment variable of the ranks: folder of the files by which the app finds them."""
_LOOK_S = 0.5
_KILL_S = 10.0
"""Seconds that the ranks have to end after SIGTERM, before they are killed."""
_EVERY_SIGNAL = [number for number in range(1, 32) if number not in (9, 19)]
_PR_SET_PDEATHSIG = 1


def run_session(
    app: Sequence[str],
    ranks: Sequence[str],
    environ: Mapping[str, str],
    *,
    run_dir: str,
    node: int,
) -> int:
    """Run the app and the ranks; return the exit code of the app, or 128 + n if signal n ended it.

    Args:
        app: program and arguments of the app, which gets this process's standard input.
        ranks: program and arguments that start the ranks of this node.
        environ: further environment variables of the ranks.
        run_dir: folder of the ranks, which this process and the agent see.
        node: number of this node.
    """
    return _SessionPrograms(run_dir, node).run(app, ranks, {**os.environ, **environ})


class _SessionPrograms:
    def __init__(self, run_dir: str, node: int) -> None:
        self._stop = os.path.join(run_dir, STOP)
        self._ended = os.path.join(run_dir, f"ended-{node}.json")
        self._app: int | None = None
        self._ranks: int | None = None
        self._told = False
        """Whether the programs got SIGTERM; ranks take a second one as urgent."""
        self._kill_at: float | None = None
        self._code = 0

    def run(self, app: Sequence[str], ranks: Sequence[str], environ: Mapping[str, str]) -> int:
        awaited = {*_FORWARDED, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        if _FOLDER in environ:
            # Of ranks of an earlier start, to which the app would connect.
            shutil.rmtree(os.path.expanduser(environ[_FOLDER]), ignore_errors=True)
        self._app = _start_program(app, {**os.environ, ENDED: self._ended}, stdin=True)
        self._ranks = _start_program(ranks, environ, stdin=False)
        while self._app is not None or self._ranks is not None:
            facts = signal.sigtimedwait(awaited, _LOOK_S)
            if facts is not None and facts.si_signo in _FORWARDED:
                self._told = self._told or facts.si_signo == signal.SIGTERM
                for pid in (self._app, self._ranks):
                    _send_signal(pid, facts.si_signo)
            self._collect_exit_codes()
            asked = self._app is None or os.path.exists(self._stop)
            if self._ranks is not None and asked:
                self._end_ranks()
        return self._code

    def _collect_exit_codes(self) -> None:
        """Collect the exit codes of ended child processes."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
                if pid == self._app:
                    self._app, self._code = None, code
                elif pid == self._ranks:
                    self._ranks = None
                    self._write_exit_code(code)

    def _end_ranks(self) -> None:
        """Ask the ranks to end; kill them if they were asked long ago."""
        now = time.monotonic()
        if self._kill_at is None:
            self._kill_at = now + _KILL_S
            if not self._told:
                _send_signal(self._ranks, signal.SIGTERM)
        elif now >= self._kill_at:
            _send_signal(self._ranks, signal.SIGKILL)

    def _write_exit_code(self, code: int) -> None:
        try:
            with open(f"{self._ended}.new", "w", encoding="utf-8") as file:
                json.dump({"exit_code": code}, file)
            os.replace(f"{self._ended}.new", self._ended)
        except OSError as error:
            print_message(
                f"{self._ended} cannot be written: {error.strerror}. The session continues"
            )


def _send_signal(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


def _start_program(argv: Sequence[str], environ: Mapping[str, str], *, stdin: bool) -> int:
    """Start a program as the leader of a process group of its own, which is killed when this
    process ends. Return its PID."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _replace_process(libc, parent, argv, environ, stdin=stdin)
    # The child does the same: from now on a signal to the group reaches it.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return pid


def _replace_process(
    libc: ctypes.CDLL,
    parent: int,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    stdin: bool,
) -> NoReturn:
    code = NOT_STARTED
    try:
        os.setpgid(0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(code)
        for number in _EVERY_SIGNAL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if not stdin:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvpe(argv[0], list(argv), dict(environ))  # noqa: S606
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
        print_message(f"{argv[0]} cannot be started: {error.strerror}")
    finally:
        os._exit(code)
