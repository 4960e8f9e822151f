"""Preparation of a data directory for the first login: an administrator and a way to log in."""

from __future__ import annotations

import logging
import os
import pwd
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from aitne.core.models.access_token import Scope
from aitne.core.models.base import USER_NAME
from aitne.core.models.project import Project
from aitne.core.models.user import Actor, Role, User
from aitne.core.settings import Settings
from aitne.services.platform.shared_secrets import hash_secret, write_private
from aitne.services.projects.slurm_account_import import AccountImport
from aitne.services.users.login_service import find_unused_project_name
from aitne.services.users.users_and_tokens import UserService
from aitne.store import Store

log = logging.getLogger(__name__)

CLI_TOKEN = "cli_token"  # noqa: S105 - the name of a file
TOKEN_NAME = "aitne up"  # noqa: S105 - what its owner sees in the list


class FirstRun:
    """Component that creates, at the first start, an administrator account and an access token for
    the Unix user who started the platform.
    """

    def __init__(
        self,
        store: Store,
        users: UserService,
        settings: Settings,
        clock: Callable[[], datetime],
        accounts: AccountImport | None = None,
    ) -> None:
        """Store the dependencies; ``accounts`` imports further users from Slurm, None if there is
        no import.
        """
        self._store = store
        self._users = users
        self._settings = settings
        self._clock = clock
        self._accounts = accounts

    async def prepare(self, administrator: str | None = None) -> None:
        """Create the first administrator and the access token of the command line if they are
        missing or no longer valid.

        ``administrator`` is the user name of the first administrator; None: the name of the Unix
        user that runs the platform.
        """
        name = administrator or unix_user()
        admin = await self._get_or_create_administrator(name)
        if self._accounts is not None:
            await self._accounts.run()
        path = self._settings.secrets_dir / CLI_TOKEN
        if await self._is_valid_token(_read_if_there(path)):
            return
        actor = Actor(user=admin, projects=frozenset({admin.default_project}))
        _, secret = await self._users.create_token(
            actor, name=TOKEN_NAME, scopes=frozenset(Scope), lifetime_s=None, notify=False
        )
        write_private(path, secret)

    async def _get_or_create_administrator(self, name: str) -> User:
        """Return an enabled administrator.

        If there is none, for example because the database was edited, the account ``name`` is
        created or becomes an administrator again.
        """
        administrators = await self._store.list_administrators()
        if administrators:
            return min(administrators, key=lambda admin: (admin.name != name, admin.name))
        user = await self._store.find_user_ignoring_case(name)
        # An account that an identity source vouches for may belong to another person.
        if user is not None and user.source is None:
            log.warning("no administrator is left: %s becomes one again", user.name)
            return await self._store.update_user(user.name, role=Role.ADMIN, disabled=False)
        free, number = name, 0
        while await self._store.find_user_ignoring_case(free) is not None:
            free, number = f"{name[:100]}-admin{number or ''}", number + 1
        log.info("creating the administrator %s", free)
        return await self._create_administrator(free)

    async def _create_administrator(self, name: str) -> User:
        now = self._clock()
        project = await find_unused_project_name(self._store, name)
        user = User(name=name, role=Role.ADMIN, default_project=project, created_at=now)
        # No password: until one is set, the user logs in by the one-time link of `aitne up`.
        return await self._store.create_user(user, None, Project(name=project, created_at=now))

    async def _is_valid_token(self, secret: str | None) -> bool:
        if secret is None:
            return False
        match = await self._store.find_token_user(hash_secret(secret), self._clock())
        return match is not None and match[0].role is Role.ADMIN


def unix_user() -> str:
    """Return the login name of the Unix user that runs the platform, with characters replaced that
    the platform does not permit in user names.
    """
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"u{os.geteuid()}"
    name = re.sub(r"[^A-Za-z0-9_.@-]", "_", name)[:128]
    return name if re.match(USER_NAME, name) else f"u{name}"[:128]


def _read_if_there(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None
