"""The only way to start a process for a job: an argument vector, an account, a time limit."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of a command. ``returncode`` is negative for the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def said(self) -> str:
        """Its stderr (else stdout) as one trimmed text."""
        return (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")


class Command(Protocol):
    """Starts processes on the platform's side, never through a shell."""

    alone: bool
    """Whether it acts only as its own account: then jobs of other accounts are not the
    platform's."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        account: str | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Completed:
        """Run the command to its end.

        ``argv[0]`` is the command's bare name (``sbatch``): ``slurm.command_prefix`` is put before
        it here, and a broker runs Slurm's own commands alone. ``account`` is the Unix account to
        act as; None: the one with which the platform queries the scheduler (the operator's, or its
        own). ``env`` is all that the process gets beside a fixed PATH and LANG.

        Raises:
            CommandTimeout: the command did not end within ``timeout_s`` and was killed; its effect
                is unknown.
            NotAllowed: this process may not act as ``account``.
            Unavailable: the command could not be started.
        """
        ...

    async def connect(
        self, argv: Sequence[str], *, account: str | None, env: Mapping[str, str] | None = None
    ) -> socket.socket:
        """Start the command and return the other end of its standard input, output and error.

        The command ends when it sees the end of its input; nothing here waits for it.

        Raises:
            NotAllowed: this process may not act as ``account``.
            RateLimited: too many commands of the account run already.
            Unavailable: the command could not be started.
        """
        ...
