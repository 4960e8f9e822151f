"""Passwords of the platform's own users, hashed with argon2id (RFC 9106)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from typing_extensions import override

from aitne.core.ports.identity_source import FormSource, Identity
from aitne.core.settings import Settings

# OWASP's recommendation for argon2id: expensive for guessing, cheap enough for logins.
_MEMORY_KIB = 19 * 1_024
_PASSES = 2
_LANES = 1


class PasswordIdentity(FormSource):
    """Identity source for passwords that the platform itself stores. At most ``at_once`` passwords
    are hashed at a time, in threads, because each needs a core and much memory.
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
        """Create the source. ``settings`` and ``clock`` are ignored; they exist because all sources
        are created with them.
        """
        self._hasher = hasher or PasswordHasher(
            time_cost=_PASSES, memory_cost=_MEMORY_KIB, parallelism=_LANES
        )
        self._slots = asyncio.Semaphore(at_once)

    @cached_property
    def _dummy_hash(self) -> str:
        """Return a hash that is used for users without a password, so that their logins take the
        same time.
        """
        return self._hasher.hash("")

    async def hash(self, password: str) -> str:
        """Return the hash of a new password."""
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    @override
    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        return Identity(username) if await self.verify(username, password, stored) else None

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Return True if the password matches the hash ``stored``. If ``stored`` is None, return
        False after the same time, so that the duration does not reveal which users exist.
        """
        async with self._slots:
            matches = await asyncio.to_thread(self._matches_stored_hash, password, stored)
        return matches and stored is not None

    def _matches_stored_hash(self, password: str, stored: str | None) -> bool:
        try:
            return self._hasher.verify(self._dummy_hash if stored is None else stored, password)
        except (VerificationError, InvalidHashError):
            return False
