"""Execution of Slurm's commands: their environment, and the conversion of their failures to errors."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Mapping

from aitne.adapters.schedulers._slurm import times
from aitne.core.errors import CommandTimeout, NotAllowed, SchedulerUnavailable, Unavailable
from aitne.core.ports.command import Command, Completed
from aitne.core.settings import Settings

_UMASK = "0022"


class Commands:
    """Runner of Slurm's commands with the site's ``slurm.conf``."""

    def __init__(self, settings: Settings, command: Command) -> None:
        self._command = command
        conf = settings.slurm.conf
        self._conf = {} if conf is None else {"SLURM_CONF": str(conf)}

    async def run_query(self, *argv: str, timeout_s: float) -> str:
        """Run a query under the account that reads the queue; return its output.

        Raises:
            SchedulerUnavailable: the command failed.
        """
        completed = await self.run(*argv, timeout_s=timeout_s)
        if completed.returncode != 0:
            raise SchedulerUnavailable(f"{argv[0]} failed: {completed.output_text}")
        return completed.stdout.decode("utf-8", "replace")

    async def run(self, *argv: str, account: str | None = None, timeout_s: float) -> Completed:
        """Run a command that can safely be repeated; return its result, whatever its exit code.
        ``account`` is the Unix account under which it runs; None: the one that reads the queue.

        Raises:
            SchedulerUnavailable: the command could not be started, or did not end in time.
        """
        env = {**self._conf, **times.ENVIRONMENT}
        try:
            return await self._command.run(argv, account=account, env=env, timeout_s=timeout_s)
        except (CommandTimeout, Unavailable) as error:
            raise SchedulerUnavailable(error.message) from error

    async def submit(
        self,
        *argv: str,
        script: bytes,
        account: str | None,
        timeout_s: float,
        test: bool = False,
    ) -> Completed:
        """Run sbatch with the environment that the job will have (``--export=ALL``).

        With ``test``, for ``sbatch --test-only``, the environment also makes sbatch print times
        that can be parsed.

        Raises:
            CommandTimeout: sbatch did not end in time; whether the job was accepted is unknown.
            Unavailable: sbatch could not be started.
            NotAllowed: the platform may not act as ``account``.
        """
        # A directory service may answer slowly.
        variables = await asyncio.to_thread(environment_of, account)
        env = {**self._conf, **variables, **(times.ENVIRONMENT if test else {})}
        return await self._command.run(
            argv, account=account, stdin=script, env=env, timeout_s=timeout_s
        )


def environment_of(account: str | None) -> Mapping[str, str]:
    """Return the variables that login(1) would set for the account, and the umask of its jobs.

    Without SLURM_UMASK jobs would inherit the mask of the service that submits them
    (https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES).

    Raises:
        NotAllowed: this machine has no such account.
    """
    try:
        user = pwd.getpwuid(os.geteuid()) if account is None else pwd.getpwnam(account)
    except KeyError:
        who = f"uid {os.geteuid()}" if account is None else account
        raise NotAllowed(f"This machine has no Unix account {who}.") from None
    return {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
        "SLURM_UMASK": _UMASK,
        "USER": user.pw_name,
    }
