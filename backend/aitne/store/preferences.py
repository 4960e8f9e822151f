"""Store of users' preferences for the portal, one JSON document for each key."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import NotFound
from aitne.store.portable_sql import upsert
from aitne.store.preference_tables import preferences
from aitne.store.store_part import Check, StorePart


class PreferenceStore(StorePart):
    """Storage of users' preferences in the portal: one JSON document for each user and key
    (``core.models.preferences``).
    """

    async def find_preference(self, user: str, key: str) -> dict[str, Any] | None:
        """Return the stored value of the user's preference with this key; None if there is none."""
        async with self._db.read() as connection:
            document: dict[str, Any] | None = (
                await connection.execute(_select_preference(user, key))
            ).scalar()
        return document

    async def save_preference(
        self,
        user: str,
        key: str,
        data: dict[str, Any],
        *,
        check: Check[dict[str, Any] | None] = None,
    ) -> None:
        """Store the value in place of the previous one. Raises ``NotFound`` if there is no such
        user."""
        values = {"user_name": user, "key": key, "data": data}
        try:
            async with self._db.write() as tx:
                await tx.acquire_lock(f"preference {key} of {user}")
                if check is not None:
                    check((await tx.execute(_select_preference(user, key))).scalar())
                await tx.execute(upsert(tx.dialect, preferences, values, ["user_name", "key"]))
        except IntegrityError as error:
            raise NotFound("user", user) from error


def _select_preference(user: str, key: str) -> Select[Any]:
    return select(preferences.c.data).where(
        preferences.c.user_name == user, preferences.c.key == key
    )
