"""Preferences of a user in the portal."""

from __future__ import annotations

from typing import Any

from aitne.core.models.base import Strict
from aitne.core.models.preferences import MODELS
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.local_system.state_file_reader import parse_state_document
from aitne.store.preferences import PreferenceStore
from aitne.store.store_part import Check


class PreferenceService:
    """Service that reads and stores the actor's own preferences for the portal."""

    def __init__(self, store: PreferenceStore) -> None:
        self._store = store

    async def get(self, actor: Actor, key: str) -> Strict:
        """Return the stored preference with the key ``key``, or the defaults if none is stored.

        A value that an older release stored and this release cannot read is ignored. Raises
        ``NotAllowed`` if the token does not permit reading.
        """
        require_permission(PolicyAction.PREFERENCE_READ, actor, "preference", key, owner=actor.name)
        return _parse_preference(key, await self._store.find_preference(actor.name, key))

    async def set_preference(
        self, actor: Actor, key: str, value: Strict, *, check: Check[Strict] = None
    ) -> Strict:
        """Store the preference and return it.

        Raises ``NotAllowed`` if the credential may not change anything.
        """
        require_permission(
            PolicyAction.PREFERENCE_WRITE, actor, "preference", key, owner=actor.name
        )
        document = value.model_dump(mode="json", exclude_defaults=True)
        store_check: Check[dict[str, Any] | None] = (
            None if check is None else lambda stored: check(_parse_preference(key, stored))
        )
        await self._store.save_preference(actor.name, key, document, check=store_check)
        return value


def _parse_preference(key: str, document: dict[str, Any] | None) -> Strict:
    model = MODELS[key]
    if document is None:
        return model()
    try:
        return parse_state_document(model, document)
    except ValueError:
        return model()
