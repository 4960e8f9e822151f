"""Checks that browsers keep the sessions of different users apart."""

from __future__ import annotations

from aitne.core.ports.store import UserStore
from aitne.core.settings import Settings

SHARED = (
    "Sessions of all users share one origin: users of this platform must trust each other. Set "
    "`sessions_url` to https://*.HOST, which gives each user a domain."
)


async def shared_origin(store: UserStore, settings: Settings) -> str | None:
    """Return what several users of one origin must know; None for one user, or with domains."""
    if settings.user_domains or (await store.list_users(limit=1)).total < 2:
        return None
    return SHARED
