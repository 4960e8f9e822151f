"""Identity: whether a name and a password belong together."""

from __future__ import annotations

from typing import Protocol


class IdentitySource(Protocol):
    """One file in ``adapters/identity`` fulfils this."""

    name: str

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Whether the password is this user's.

        ``stored`` is the platform's own hash; None for a name it does not know or that has no
        password. The time taken must not tell the cases apart.

        Raises:
            Unavailable: the source does not answer.
        """
        ...


class PasswordHasher(Protocol):
    """For the platform's own accounts: what ``verify`` is later given as ``stored``."""

    async def hash(self, password: str) -> str:
        """A salted hash that says itself how it was made."""
        ...
