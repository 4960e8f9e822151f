"""HTTP headers that authenticate requests to slurmrestd
(https://slurm.schedmd.com/rest_quickstart.html#security).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from aitne.adapters.schedulers._slurm.commands import Commands
from aitne.adapters.schedulers._slurm.token_mint import TokenMint
from aitne.core.errors import SchedulerUnavailable
from aitne.core.settings import Settings
from aitne.local_system.own_account import own_account_name

PERMITTED_S = 30.0
"""Seconds for which an account, once found permitted, is not checked again."""
_LIFESPAN_S = 600
_TIMEOUT_S = 10.0
_TOKEN = re.compile(r"SLURM_JWT=([A-Za-z0-9_.-]+)")


class AccountHeaders:
    """Provider of the HTTP headers that authenticate an account at slurmrestd.

    With Slurm's key, tokens can be made for any account. To check that the platform may act as an
    account, a command without effect is therefore run under it first; this fails for accounts that
    are not permitted.
    """

    def __init__(
        self,
        settings: Settings,
        commands: Commands,
        *,
        mint: TokenMint | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._operator = settings.slurm.operator or own_account_name()
        self._local = (settings.slurm.rest_url or "").startswith("unix:")
        self._commands = commands
        self._mint = mint
        self._clock = clock
        self._permitted: dict[str, float] = {}
        self._tokens: dict[str, tuple[float, str]] = {}

    async def headers(self, account: str | None) -> Mapping[str, str]:
        """Return the headers that authenticate ``account``; None: the account with which the
        platform reads the queue.

        Raises:
            NotAllowed: the platform may not act as ``account``.
            SchedulerUnavailable: Slurm issues no token.
        """
        if account is not None:
            await self._check_permitted(account)
        name = account or self._operator
        if self._mint is not None:
            token = self._mint.token(name)
        elif self._local:
            return {}  # rest_auth/local: the socket itself authenticates the caller
        else:
            token = await self._get_token(account, name)
        return {"X-SLURM-USER-NAME": name, "X-SLURM-USER-TOKEN": token}

    async def _check_permitted(self, account: str) -> None:
        if self._clock() < self._permitted.get(account, 0.0):
            return
        await self._commands.run("scontrol", "--version", account=account, timeout_s=_TIMEOUT_S)
        self._permitted[account] = self._clock() + PERMITTED_S

    async def _get_token(self, account: str | None, name: str) -> str:
        """Return a token for the account. If the platform does not have Slurm's key, slurmctld
        issues the token after authenticating the caller by munge.
        """
        until, token = self._tokens.get(name, (0.0, ""))
        if self._clock() < until:
            return token
        completed = await self._commands.run(
            "scontrol", "token", f"lifespan={_LIFESPAN_S}", account=account, timeout_s=_TIMEOUT_S
        )
        match = _TOKEN.search(completed.stdout.decode("utf-8", "replace"))
        if completed.returncode != 0 or match is None:
            raise SchedulerUnavailable(
                f"Slurm issues no token (`scontrol token`): {completed.output_text}. Set slurm.jwt_key, or leave "
                "slurm.rest_url unset."
            )
        self._tokens[name] = (self._clock() + _LIFESPAN_S / 2, match[1])
        return match[1]
