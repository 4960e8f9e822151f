"""The store's part about what users prefer in the portal."""

from __future__ import annotations

from typing import Any, Protocol

from aitne.core.ports.store.records import Check


class PreferenceStore(Protocol):
    """One document for each user and key (``core.models.preferences``)."""

    async def preference(self, user: str, key: str) -> dict[str, Any] | None:
        """What was put last; None: nothing yet."""
        ...

    async def put_preference(
        self,
        user: str,
        key: str,
        data: dict[str, Any],
        *,
        check: Check[dict[str, Any] | None] = None,
    ) -> None:
        """Keep it in place of what was there. Raises ``NotFound``: there is no such user."""
        ...
