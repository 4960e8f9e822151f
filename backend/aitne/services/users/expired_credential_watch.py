"""The end of what was opened with credentials whose time is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from aitne.core.errors import StoreUnavailable
from aitne.core.users.ended_credentials import EndedCredentials
from aitne.store.credential_expiry import CredentialExpiryStore

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""Longest pause between two checks, because another process may have created a credential."""


class ExpiryWatch:
    """Task that reports sign-ins, impersonations and access tokens when their time is over, as their
    revocation is reported.

    Connections do not survive the process, so only what expires while it runs is reported; logins at
    JupyterHub do, and ``HubLogouts`` finds those that were to end before.
    """

    def __init__(
        self,
        store: CredentialExpiryStore,
        clock: Callable[[], datetime],
        ended: Callable[[EndedCredentials], Awaitable[None]],
    ) -> None:
        """Create a task that calls ``ended`` with the credentials that have expired."""
        self._store = store
        self._clock = clock
        self._ended = ended
        self._until = clock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the task, which begins with what expires from now on."""
        self._task = asyncio.create_task(self._run(), name="expiry")

    async def stop(self) -> None:
        """Stop the task, and return when it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def report_expired(self) -> float:
        """Report the credentials that have expired since the last call, and return the number of
        seconds until the next call is due.
        """
        now = self._clock()
        ids = await self._store.list_expired_credentials(self._until, now)
        following = await self._store.find_next_expiry(now)
        self._until = now
        if ids:
            await self._ended(EndedCredentials(ids=ids))
        if following is None:
            return LOOK_EVERY_S
        return min(LOOK_EVERY_S, max(0.0, (following - self._clock()).total_seconds()))

    async def _run(self) -> None:
        while True:
            try:
                pause_s = await self.report_expired()
            except StoreUnavailable as error:
                log.warning("The expired credentials could not be read: %s", error.message)
                pause_s = LOOK_EVERY_S
            await asyncio.sleep(pause_s)
