"""Start of commands under a Unix account, with an argument vector and a time limit. Jobs' processes
are started only in this way.
"""

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
    def output_text(self) -> str:
        """Return the standard error output or, if it is empty, the standard output, without
        surrounding white space.
        """
        return (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")


class Command(Protocol):
    """Port that runs commands on the platform's machine under a Unix account, without a shell."""

    alone: bool
    """True if commands can run only under the platform's own account. Jobs of other accounts are
    then not jobs of the platform.
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
        """Run the command and wait until it has ended.

        Args:
            argv: command and arguments. ``argv[0]`` is the command's name without a path
                (``sbatch``). Implementations prepend the setting ``slurm.command_prefix``; a broker
                runs only Slurm's own commands.
            account: Unix account under which the command runs. None: the account with which the
                platform queries Slurm, which is the setting ``slurm.operator`` or, if that is not
                set, the platform's own account.
            stdin: content of the command's standard input.
            env: environment variables of the command in addition to a fixed PATH and LANG.
            timeout_s: time limit in seconds.

        Raises:
            CommandTimeout: the command did not end within ``timeout_s`` and was killed; its effect
                is unknown.
            NotAllowed: the platform may not act as ``account``.
            Unavailable: the command could not be started.
        """
        ...

    async def start_connected(
        self, argv: Sequence[str], *, account: str | None, env: Mapping[str, str] | None = None
    ) -> socket.socket:
        """Start the command and return a socket that is connected to its standard input, output and
        error.

        ``argv``, ``account`` and ``env`` are as in ``run``. The command must end by itself when it
        reads the end of its input; this object does not wait for it.

        Raises:
            NotAllowed: the platform may not act as ``account``.
            RateLimited: too many commands of the account are running already.
            Unavailable: the command could not be started.
        """
        ...
