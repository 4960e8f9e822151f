"""Progress and log of a build or import of an image: all output of programs goes to the log, and
one line per step to the user.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aitne.adapters.program_runner import PATH, delay_signals, join_last_lines
from aitne.core.errors import AitneError, SetupError

Progress = Callable[[str], None]
_END_S = 15.0
FULL = "No space left on device"
_CHATTER = ("INFO:", "WARNING:")
"""Prefixes of Apptainer's output lines that never explain a failure."""


class Work:
    """A build or import in progress: runs its steps, reports them to the user through the callback
    ``progress``, and writes everything to the log ``path``, which is overwritten.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self._progress = progress
        self._began = time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of the work."""
        return time.monotonic() - self._began

    def report_step(self, text: str) -> None:
        """Report a step to the user and write it to the log."""
        line = f"{text} ({self.seconds:.0f} s)"
        self.log_line(f"== {line}")
        self._progress(line)

    def log_line(self, text: str) -> None:
        """Write a line to the log of the build, without showing it as progress."""
        with self.path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(text + "\n")

    def run(
        self,
        argv: Sequence[str],
        *,
        what: str,
        env: Mapping[str, str] | None = None,
        cwd: Path = Path("/"),
        user: int | None = None,
        timeout_s: float = 3_600,
        watch: Progress | None = None,
    ) -> list[str]:
        """Run a program until it ends and return its last lines of output; the whole output goes to
        the log.

        ``what`` names the step in error messages. ``env`` is added to a fixed PATH and locale.
        ``watch`` is called with each line of output. If waiting is interrupted, the program and its
        children are terminated.

        Raises:
            SetupError: the program is missing, failed, or did not end within ``timeout_s``.
        """
        self.log_line(f"$ {' '.join(argv)}")
        lines: deque[str] = deque(maxlen=200)
        with ExitStack() as stack:
            with delay_signals():
                process = stack.enter_context(self._start_program(argv, what, env, cwd, user))
                timed_out = stack.enter_context(_end_after_timeout(process, timeout_s))
            assert process.stdout is not None  # noqa: S101 (a pipe was requested)
            for line in process.stdout:
                self.log_line(line.rstrip())
                lines.append(line.rstrip())
                if watch is not None:
                    watch(line.rstrip())
            process.wait()
        if timed_out:
            raise self.failure(what, f"it did not end within {timeout_s:g} s")
        if process.returncode:
            telling = [line for line in lines if not line.startswith(_CHATTER)] or lines
            reason = (
                join_last_lines(telling)
                or f"{Path(argv[0]).name} ended with status {process.returncode}"
            )
            raise self.failure(what, reason)
        return list(lines)

    def _start_program(
        self,
        argv: Sequence[str],
        what: str,
        env: Mapping[str, str] | None,
        cwd: Path,
        user: int | None,
    ) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={"PATH": PATH, "LANG": "C.UTF-8", **(env or {})},
                cwd=cwd,
                umask=0o022,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else (),
            )
        except OSError as error:
            raise self.failure(what, f"{argv[0]}: {error.strerror}") from error

    def failure(self, step: str, reason: str) -> SetupError:
        """Return the error for a failed step; its message contains the reason and the path of the log."""
        if FULL.lower() in reason.lower():
            reason = f"a disk is full ({reason})"
        return SetupError(f"{step} failed: {reason.rstrip('.')}. Full log: {self.path}")

    @contextmanager
    def convert_errors(self, what: str) -> Iterator[None]:
        """Convert an ``OSError`` inside the ``with`` block to a ``SetupError`` that names the step
        ``what`` and the log.
        """
        try:
            yield
        except OSError as error:
            raise self.failure(what, format_os_error(error)) from error
        except AitneError as error:
            self.log_line(f"== {error.message}")
            raise


def format_os_error(error: OSError) -> str:
    """Return the message of a file system error with the path, such as ``No space left on device:
    /srv/images/…``.
    """
    reason = FULL if error.errno == errno.ENOSPC else error.strerror or str(error)
    return f"{reason}: {error.filename}" if error.filename else reason


@contextmanager
def _end_after_timeout(process: subprocess.Popen[str], timeout_s: float) -> Iterator[list[bool]]:
    """Kill the process group of the program after ``timeout_s``, and terminate it if an exception
    ends the ``with`` block. The yielded list is not empty after the timeout.
    """
    timed_out: list[bool] = []

    def expire() -> None:
        timed_out.append(True)
        _signal_process_group(process, signal.SIGKILL)

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    timer.start()
    try:
        yield timed_out
    except BaseException:
        _signal_process_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        _signal_process_group(process, signal.SIGKILL)
        raise
    finally:
        timer.cancel()


def _signal_process_group(process: subprocess.Popen[str], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
