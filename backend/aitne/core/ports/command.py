"""The only way to start a process for a job: an argument vector, an account, a time limit."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of a command that has ended. ``returncode`` is negative if a signal ended the command:
    ``-9`` for SIGKILL.
    """

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def said(self) -> str:
        """Return the standard error output, or if it is empty the standard output, as
        trimmed text.
        """
        return (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")


class Command(Protocol):
    """Port that runs commands on the platform's machine under a Unix account, without a shell."""

    alone: bool
    """Whether commands can only run under this process's own account. Then jobs of other accounts
    do not belong to the platform.
    """

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
        """Start the command and return a socket that is connected to its standard input, output and
        error.

        The command has to end by itself when it reads the end of its input; this object does not
        wait for it.

        Raises:
            NotAllowed: this process may not act as ``account``.
            RateLimited: too many commands of the account are running already.
            Unavailable: the command could not be started.
        """
        ...
