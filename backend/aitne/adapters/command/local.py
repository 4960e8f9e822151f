"""Execution of commands under the platform's own account."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from aitne.adapters.command._process import ConnectedProcesses, run_process
from aitne.core.errors import NotAllowed
from aitne.core.ports.command import Completed
from aitne.local_system.own_account import own_account_name

MOST_CONNECTED = 200
"""Maximum number of programs that run inside allocations at the same time, of all users together,
because all jobs have the same account here.
"""


class LocalCommand:
    """Implementation of ``core.ports.command.Command`` without a broker: commands run under the
    Unix account of the platform's own processes.

    Args:
        prefix: program and arguments that are prepended to each command.
    """

    alone = True

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._prefix = tuple(prefix)
        self._connected = ConnectedProcesses(MOST_CONNECTED)

    async def run(
        self,
        argv: Sequence[str],
        *,
        account: str | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Completed:
        """Run a command until it ends, as the process's own account.

        Raises:
            NotAllowed: ``account`` is another account.
            CommandTimeout: the command did not end within ``timeout_s`` and was killed.
            Unavailable: the command could not be started.
        """
        _check_own_account(account)
        return await run_process(
            [*self._prefix, *argv], name=argv[0], stdin=stdin, env=env, timeout_s=timeout_s
        )

    async def start_connected(
        self, argv: Sequence[str], *, account: str | None, env: Mapping[str, str] | None = None
    ) -> socket.socket:
        """Start a command under the platform's own Unix account, and return a socket connected to
        its standard input and output. The command continues to run after the return.

        Raises:
            NotAllowed: ``account`` is another account.
            RateLimited: too many connected programs are running already.
            Unavailable: the command could not be started.
        """
        _check_own_account(account)
        return await self._connected.start(
            [*self._prefix, *argv], name=argv[0], account=account, env=env
        )


def _check_own_account(account: str | None) -> None:
    if account not in (None, own_account_name()):
        raise NotAllowed(
            f"This platform runs as {own_account_name()} (uid {os.geteuid()}) and cannot act as "
            f"{account}: it has no broker. Set broker.socket."
        )
