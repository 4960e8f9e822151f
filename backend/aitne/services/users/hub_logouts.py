"""Logout of users from JupyterHub and their sessions after their sign-ins at the portal have ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from aitne.core.errors import HubUnavailable, StoreUnavailable
from aitne.core.ports.hub import HubLogins
from aitne.store.credential_expiry import CredentialExpiryStore

log = logging.getLogger(__name__)

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


class HubLogouts:
    """Task that logs out users from JupyterHub whose sign-ins at the portal were revoked or have
    expired. The store contains the list of these users.

    The task sleeps until ``wake`` is called. While JupyterHub does not answer, it retries.
    """

    def __init__(
        self, store: CredentialExpiryStore, hub: HubLogins, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock
        self._due = asyncio.Event()
        self._due.set()  # for logins that ended before this process started
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the task; it begins with the users that an earlier process left in the store."""
        self._task = asyncio.create_task(self._run(), name="hub-logouts")

    async def stop(self) -> None:
        """Stop the task; users who were not logged out yet stay in the store."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    def wake(self) -> None:
        """Make the task read the store at once, because sign-ins have just ended."""
        self._due.set()

    async def _run(self) -> None:
        pause = SHORTEST_PAUSE_S
        while True:
            await self._due.wait()
            self._due.clear()
            if await self._pass_on():
                pause = SHORTEST_PAUSE_S
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            self._due.set()

    async def _pass_on(self) -> bool:
        """Log out all users in the store's list. Returns False if some of them could not be logged
        out yet.
        """
        complete = True
        try:
            for logout in await self._store.list_hub_logouts(self._clock()):
                try:
                    await self._hub.end_logins(logout.owner, logout.kept_sign_in_ids)
                except HubUnavailable as error:
                    log.warning("%s The request is retried.", error.message)
                    complete = False
                else:
                    await self._store.finish_hub_logout(logout)
        except StoreUnavailable as error:
            log.warning("The ended logins could not be read: %s", error.message)
            complete = False
        return complete
