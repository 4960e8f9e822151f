"""Part of the store for the preferences of users in the portal."""

from __future__ import annotations

from typing import Any, Protocol

from aitne.core.ports.store.records import Check


class PreferenceStore(Protocol):
    """Storage of users' preferences in the portal: one JSON document for each user and key
    (``core.models.preferences``).
    """

    async def preference(self, user: str, key: str) -> dict[str, Any] | None:
        """Return the stored value of the user's preference with this key; None if there is none."""
        ...

    async def put_preference(
        self,
        user: str,
        key: str,
        data: dict[str, Any],
        *,
        check: Check[dict[str, Any] | None] = None,
    ) -> None:
        """Store the value in place of the previous one. Raises ``NotFound`` if there is no such
        user."""
        ...
