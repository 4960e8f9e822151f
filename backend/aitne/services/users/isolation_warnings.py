"""Warnings for platforms whose users are not isolated from each other."""

from __future__ import annotations

from collections.abc import Sequence

from aitne.core.settings import Settings
from aitne.services.users.shared_account_restriction import shared_account
from aitne.store.user_project_search import DirectoryStore

SHARED_ORIGIN = (
    "Sessions of all users share one origin: users of this platform must trust each other. Set "
    "`sessions_url` to https://*.HOST, which gives each user a domain."
)


async def list_isolation_warnings(store: DirectoryStore, settings: Settings) -> Sequence[str]:
    """List warnings about users who are not separated from each other on the machine or in
    browsers; empty if there is only one user.
    """
    notes = []
    account = shared_account(settings)
    if account is not None and settings.trusted_users:
        notes.append(
            f"All jobs run as {account} on this machine: users of this platform must "
            "trust each other."
        )
    if not settings.has_user_domains and (await store.list_users(limit=1)).total > 1:
        notes.append(SHARED_ORIGIN)
    return notes
