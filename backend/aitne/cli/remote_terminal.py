"""Connection between the user's terminal and a program in a job."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty as modes

from aitne.cli import output
from aitne.client import Client, Job
from aitne.client.terminal_connection import OUT, TerminalConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

LOST = 255
_READ = 32 << 10
_ENTER, _ESCAPE, _HANG_UP = b"\r\n", b"~", b"."


def attach_terminal(client: Client, job: Job, command: Sequence[str], *, node: str | None) -> int:
    """Run ``command``, or a shell if it is empty, in a job, connected to this terminal, until it
    ends or the user disconnects. Return its exit status."""
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    rows, cols = _get_terminal_size() if tty else (24, 80)
    term = os.environ.get("TERM") or "xterm-256color"
    with client.jobs.attach(
        job.id, command, node=node, tty=tty, rows=rows, cols=cols, term=term
    ) as terminal:
        if terminal.where == "beside" and tty:
            output.print_message(
                f"On node {terminal.node}, outside the job's container, which cannot be entered."
            )
        return TerminalTraffic(terminal, tty=tty, stdin=sys.stdin.fileno()).run()


def _get_terminal_size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 24, 80
    return max(1, size.lines), max(1, size.columns)


class TerminalTraffic:
    """Transfer of a terminal's data: output in a separate thread, input in the calling thread."""

    def __init__(self, terminal: TerminalConnection, *, tty: bool, stdin: int) -> None:
        self._terminal = terminal
        self._tty = tty
        self._stdin = stdin
        self._wake, self._waker = os.pipe()
        self._failure: Exception | None = None
        self._hung_up = False
        self._escape = EscapeDetector()

    def run(self) -> int:
        """Transfer data until the program ends, and return its exit status. Raises the error that
        ended the connection."""
        reader = threading.Thread(target=self._write_output, name="output", daemon=True)
        before = termios.tcgetattr(self._stdin) if self._tty else None
        try:
            if self._tty:
                modes.setraw(self._stdin)
                signal.signal(signal.SIGWINCH, self._handle_resize)
            reader.start()
            self._send_input()
        finally:
            if before is not None:
                signal.signal(signal.SIGWINCH, signal.SIG_DFL)
                termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)
            self._terminal.close()
            reader.join()
            os.close(self._wake)
            os.close(self._waker)
        if self._hung_up:
            output.print_message("Disconnected.")
            return LOST
        if self._failure is not None:
            raise self._failure
        if self._terminal.reason:
            output.print_message(output.to_single_line(self._terminal.reason))
        return LOST if self._terminal.exit_code is None else self._terminal.exit_code

    def _handle_resize(self, number: int, frame: FrameType | None) -> None:
        os.write(self._waker, b"r")

    def _write_output(self) -> None:
        try:
            for kind, data in self._terminal.read():
                stream = sys.stdout if kind == OUT else sys.stderr
                stream.buffer.write(data)
                stream.buffer.flush()
        except Exception as error:  # noqa: BLE001 - reported by the thread that ends the verb
            self._failure = error
        os.write(self._waker, b"e")

    def _send_input(self) -> None:
        watched = [self._wake, self._stdin]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self._wake in ready:
                wakeups = os.read(self._wake, 64)
                if b"e" in wakeups:
                    return
                self._terminal.resize(*_get_terminal_size())
            if self._stdin in ready:
                data = os.read(self._stdin, _READ)
                if not data:
                    watched.remove(self._stdin)
                    self._terminal.end_input()
                    continue
                if self._tty:
                    data, self._hung_up = self._escape.filter_input(data)
                self._terminal.write(data)
                if self._hung_up:
                    return


class EscapeDetector:
    """Detector of the key sequence Enter ``~`` ``.`` in the input, which disconnects as in ssh;
    ``~~`` sends one ``~``."""

    def __init__(self) -> None:
        self._line_begins = True
        self._begun = False

    def filter_input(self, typed: bytes) -> tuple[bytes, bool]:
        """Return the part of the input that the program gets, and whether the user wants to
        disconnect."""
        out = b""
        for number in typed:
            char = bytes((number,))
            if self._begun:
                self._begun = False
                if char == _HANG_UP:
                    return out, True
                out += char if char == _ESCAPE else _ESCAPE + char
            elif self._line_begins and char == _ESCAPE:
                self._begun = True
                continue
            else:
                out += char
            self._line_begins = char in _ENTER
        return out, False
