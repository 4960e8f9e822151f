"""Limitation of platforms on which all jobs run under one Unix account: a job can read the
platform's secrets and the files of all users.
"""

from __future__ import annotations

from aitne.core.errors import Conflict
from aitne.core.settings import Settings
from aitne.local_system.own_account import own_account_name
from aitne.store.user_project_search import DirectoryStore


def shared_account(settings: Settings) -> str | None:
    """Return the Unix account of this machine under which the jobs of all users run; None if each
    user has a Unix account.
    """
    return None if settings.capabilities.runs_as_users else own_account_name()


async def check_another_user(store: DirectoryStore, settings: Settings) -> None:
    """Check that one more user may be added to the platform.

    Raises:
        Conflict: all users would share a Unix account, and the site's settings do not permit that.
    """
    account = shared_account(settings)
    if account is None or settings.trusted_users:
        return
    if (await store.list_users(limit=1)).items:
        raise Conflict(
            f"All jobs of this platform run as {account} on this machine, so it serves one user: the "
            "job of another one could read its secrets and every file. If all users trust each other, "
            "start it with `aitne up --trusted-users`, or set trusted_users = true in aitne.toml."
        )
