"""Execution of Slurm's commands under the account of a job. In the broker, this is the code that
gives up root's rights for one process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence

from aitne.adapters.command._process import ConnectedProcesses, run_process
from aitne.adapters.unix_account_mapping import UnixUser
from aitne.core.errors import NotAllowed
from aitne.core.ports.command import Completed

COMMANDS = frozenset(
    [
        "sacct",
        "sacctmgr",
        "sbatch",
        "scancel",
        "scontrol",
        "sdiag",
        "sinfo",
        "sprio",
        "squeue",
        "sreport",
        "sshare",
    ]
)
"""Programs that may be run to completion; all others are refused."""
CONNECTED = frozenset(["srun"])
"""Programs that may be started with a socket as their standard streams; all others are refused."""
MOST_CONNECTED = 30
"""Maximum number of connected programs of one account that run at the same time."""


class AsUserCommand:
    """Implementation of ``core.ports.command.Command`` for the broker, which runs as root and
    starts commands under users' accounts.

    Args:
        permitted: returns the Unix user of an account, or raises ``NotAllowed``.
        operator: user under which commands without an account run; None: root, which Slurm always
            treats as an administrator.
        prefix: program and arguments that are prepended to each command.
    """

    alone = False

    def __init__(
        self,
        permitted: Callable[[str], UnixUser],
        operator: UnixUser | None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._permitted = permitted
        self._operator = operator
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
        """Run a command until it ends, as ``account``, without any of root's rights.

        Raises:
            NotAllowed: the account or the command is not permitted.
            CommandTimeout: the command did not end within ``timeout_s`` and was killed.
            Unavailable: the command could not be started.
        """
        if not argv or argv[0] not in COMMANDS:
            raise NotAllowed(f"The broker runs only Slurm's commands, not {list(argv[:1])}.")
        if account is not None:
            # A directory service may answer slowly.
            user: UnixUser | None = await asyncio.to_thread(self._permitted, account)
        else:
            user = None if _needs_root(argv) else self._operator
        drop = () if user is None else _make_setpriv_arguments(user)
        return await run_process(
            [*self._prefix, *drop, *argv], name=argv[0], stdin=stdin, env=env, timeout_s=timeout_s
        )

    async def start_connected(
        self, argv: Sequence[str], *, account: str | None, env: Mapping[str, str] | None = None
    ) -> socket.socket:
        """Start a command as ``account``, without any of root's rights, and return a socket
        connected to its standard input and output. The command continues to run after the return.

        Raises:
            NotAllowed: the account or the command is not permitted.
            RateLimited: too many connected programs of the account are running already.
            Unavailable: the command could not be started.
        """
        if account is None or not argv or argv[0] not in CONNECTED:
            raise NotAllowed(
                f"The broker does not connect to {list(argv[:1])}, nor to any program without an "
                "account."
            )
        user = await asyncio.to_thread(self._permitted, account)
        return await self._connected.start(
            [*self._prefix, *_make_setpriv_arguments(user), *argv],
            name=argv[0],
            account=account,
            env=env,
        )


def _needs_root(argv: Sequence[str]) -> bool:
    """Return True for a command that Slurm does not accept from an operator, but only from root or
    an administrator, such as a change of a node's state.

    See the first paragraphs of https://slurm.schedmd.com/scontrol.html.
    """
    named = len(argv) > 2 and argv[2].lower().startswith("nodename=")
    return named and tuple(argv[:2]) == ("scontrol", "update")


def _make_setpriv_arguments(user: UnixUser) -> list[str]:
    """Return the arguments of setpriv(1) that change to the account and its groups. They are
    numeric because the command may run in another root file system that does not know the names.
    """
    return [
        "setpriv",
        f"--reuid={user.uid}",
        f"--regid={user.gid}",
        f"--groups={','.join(map(str, user.groups))}",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    ]
