"""Execution of the command line tools of a storage system."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/beegfs/sbin"
_MOST_BYTES = 4 << 20


class ToolFailed(Exception):
    """Error: a program did not start, failed or did not answer in time; the message has no full
    stop.
    """


@dataclass(frozen=True, slots=True)
class StorageTools:
    """Runner of a storage system's programs. Programs do not inherit this process's environment."""

    search: str = SEARCH
    """Folders in which programs are searched, separated by colons as in ``PATH``."""
    timeout_s: float = 4.0
    """Timeout in seconds, for all programs of one call together."""

    def has_program(self, program: str) -> bool:
        """Return True if the program is installed on this machine."""
        return self._find_program(program) is not None

    def run(self, argv: Sequence[str], *, check: bool = True) -> str:
        """Run a program and return its output.

        Args:
            argv: program and arguments.
            check: whether an exit code other than 0 is an error.

        Raises:
            ToolFailed: the program did not start, failed or did not answer in time.
        """
        [output] = self.run_all([argv], check=check)
        if isinstance(output, ToolFailed):
            raise output
        return output

    def run_all(
        self, commands: Sequence[Sequence[str]], *, check: bool = True
    ) -> list[str | ToolFailed]:
        """Run several programs concurrently, and return the output or the error of each, in the
        order of ``commands``. ``check`` is as for ``run``.
        """
        until = time.monotonic() + self.timeout_s
        started = [self._start_program(argv) for argv in commands]
        return [
            process
            if isinstance(process, ToolFailed)
            else self._wait_for_output(argv[0], process, until, check)
            for argv, process in zip(commands, started, strict=True)
        ]

    def _start_program(self, argv: Sequence[str]) -> subprocess.Popen[bytes] | ToolFailed:
        program = self._find_program(argv[0])
        if program is None:
            return ToolFailed(f"{argv[0]} is not installed here")
        try:
            return subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={"PATH": self.search, "LANG": "C.UTF-8", "HOME": "/"},
            )
        except OSError as error:
            return ToolFailed(f"{argv[0]} could not be run: {error.strerror}")

    def _wait_for_output(
        self, name: str, process: subprocess.Popen[bytes], until: float, check: bool
    ) -> str | ToolFailed:
        with process:
            try:
                out, err = process.communicate(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                return ToolFailed(f"{name} did not answer within {self.timeout_s:g} s")
        if process.returncode != 0 and check:
            message = _last_line((err or out).decode(errors="replace"))
            return ToolFailed(f"{name} failed: {message or process.returncode}")
        return out[:_MOST_BYTES].decode(errors="replace")

    def _find_program(self, program: str) -> str | None:
        path = shutil.which(program, path=self.search)
        return path if path is not None and os.path.isabs(path) else None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200].rstrip(".") if lines else ""
