"""Execution of programs until they end, during set-up commands for which a user waits."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from aitne.core.errors import SetupError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TAIL_LINES = 4
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_program(
    argv: Sequence[str],
    *,
    env: dict[str, str],
    timeout_s: float = 60,
    stdin: str = "",
    cwd: Path = Path("/"),
) -> str:
    """Run a program until it ends and return its standard output.

    Args:
        argv: program and arguments.
        env: the complete environment of the program.
        timeout_s: seconds after which the program is killed.
        stdin: text for its standard input.
        cwd: its working directory.

    Raises:
        SetupError: the program is missing, failed, or did not end in time; the message contains the
            last lines of its output.
    """
    try:
        process = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            env=env,
            cwd=cwd,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise SetupError(f"{error.filename} is not installed on this machine.") from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s.") from error
    if process.returncode:
        output = join_last_lines((process.stderr or process.stdout).splitlines())
        raise SetupError(f"`{' '.join(argv)}` failed ({process.returncode}): {output}")
    return process.stdout


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until the end of the ``with`` block.

    Use it between the start of a child process and the code that ensures that the child is ended,
    because an interruption there would leave the child running. Signals are delayed with handlers
    and not with a signal mask, which the child would inherit. Outside the main thread this has no
    effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread alone.
        return
    came: list[int] = []

    def keep(number: int, _: FrameType | None) -> None:
        came.append(number)

    # A handler that was not set from Python can neither be restored nor raise an exception here.
    before = {
        signum: handler for signum in _ENDING if callable(handler := signal.getsignal(signum))
    }
    for signum in before:
        signal.signal(signum, keep)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


def join_last_lines(lines: Iterable[str]) -> str:
    """Return the last ``TAIL_LINES`` non-empty lines, joined to one line by ``" / "``."""
    return " / ".join([line.strip() for line in lines if line.strip()][-TAIL_LINES:])
