"""The platform's own accounts: argon2id (RFC 9106)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from typing_extensions import override

from aitne.core.ports.identity import FormSource, Identity
from aitne.core.settings import Settings

# OWASP's recommendation for argon2id: expensive for guessing, cheap enough for logins.
_MEMORY_KIB = 19 * 1_024
_PASSES = 2
_LANES = 1


class PasswordIdentity(FormSource):
    """Identity source for passwords of the platform's own accounts. At most ``at_once`` passwords
    are hashed at a time, in threads, because each takes a core and some memory.
    """

    name = "password"

    def __init__(
        self,
        settings: Settings | None = None,
        clock: Callable[[], datetime] | None = None,
        *,
        hasher: PasswordHasher | None = None,
        at_once: int = 2,
    ) -> None:
        """Ignore the settings and the clock that every source is created with."""
        self._hasher = hasher or PasswordHasher(
            time_cost=_PASSES, memory_cost=_MEMORY_KIB, parallelism=_LANES
        )
        self._slots = asyncio.Semaphore(at_once)

    @cached_property
    def _nobodys(self) -> str:
        """A hash for the comparison where the user has none, so that it takes the same time."""
        return self._hasher.hash("")

    async def hash(self, password: str) -> str:
        """Hash a new password."""
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    @override
    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        return Identity(username) if await self.verify(username, password, stored) else None

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Verify a password; an unknown name takes the same time and fails."""
        async with self._slots:
            matches = await asyncio.to_thread(self._matches, password, stored)
        return matches and stored is not None

    def _matches(self, password: str, stored: str | None) -> bool:
        try:
            return self._hasher.verify(self._nobodys if stored is None else stored, password)
        except (VerificationError, InvalidHashError):
            return False
