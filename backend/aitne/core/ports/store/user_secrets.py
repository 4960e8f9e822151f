"""Part of the store for users' secrets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from aitne.core.models.user_secret import UserSecret


class UserSecretStore(Protocol):
    """Storage of users' secrets: for each owner, names with encrypted values."""

    async def put_user_secret(
        self, owner: str, name: str, encrypted: str, now: datetime, *, most: int
    ) -> UserSecret:
        """Store a secret, or replace its value.

        Raises ``NotFound`` if there is no such user, and ``Conflict`` if the owner already has
        ``most`` other secrets.
        """
        ...

    async def list_user_secrets(self, owner: str) -> Sequence[UserSecret]:
        """Return the owner's secrets, sorted by name."""
        ...

    async def encrypted_user_secrets(self, owner: str, names: Collection[str]) -> Mapping[str, str]:
        """Return the encrypted values of the owner's secrets among ``names``, by name."""
        ...

    async def delete_user_secret(self, owner: str, name: str) -> None:
        """Delete a secret. Raises ``NotFound``."""
        ...
