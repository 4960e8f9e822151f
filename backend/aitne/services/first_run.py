"""What a data directory needs before anybody can log in: an administrator and a way in."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from aitne.core.models.user import Actor, Project, Role, Scope, User
from aitne.core.ports.store import UserStore
from aitne.core.settings import Settings
from aitne.services.arrivals import default_project_of
from aitne.services.import_accounts import AccountImport
from aitne.services.secrets import hashed
from aitne.services.users import UserService

CLI_TOKEN = "cli_token"  # noqa: S105 - the name of a file
TOKEN_NAME = "aitne up"  # noqa: S105 - what its owner sees in the list


class FirstRun:
    """Makes the first administrator, and the token of whoever started the platform."""

    def __init__(
        self,
        store: UserStore,
        users: UserService,
        settings: Settings,
        clock: Callable[[], datetime],
        accounts: AccountImport | None = None,
    ) -> None:
        """``accounts``: whom to make portal accounts of besides."""
        self._store = store
        self._users = users
        self._settings = settings
        self._clock = clock
        self._accounts = accounts

    async def prepare(self) -> None:
        """Idempotent: an administrator and a token that still work are left alone."""
        name = unix_user()
        admin = await self._first_admin(name)
        if self._accounts is not None:
            await self._accounts.run()
        path = self._settings.secrets_dir / CLI_TOKEN
        if await self._works(_read_if_there(path)):
            return
        actor = Actor(user=admin, projects=frozenset({admin.default_project}))
        _, secret = await self._users.create_token(
            actor, name=TOKEN_NAME, scopes=frozenset(Scope), lifetime_s=None
        )
        _write_private(path, secret)

    async def _first_admin(self, name: str) -> User:
        users = (await self._store.list_users(limit=1_000)).items
        for user in sorted(users, key=lambda each: each.name != name):
            if user.role is Role.ADMIN and not user.disabled:
                return user
        now = self._clock()
        user = User(
            name=name, role=Role.ADMIN, default_project=default_project_of(name), created_at=now
        )
        # No password: the one-time link that `aitne up` prints is the way in until one is set.
        return await self._store.create_user(
            user, None, Project(name=user.default_project, created_at=now)
        )

    async def _works(self, secret: str | None) -> bool:
        if secret is None:
            return False
        found = await self._store.token_user(hashed(secret), self._clock())
        return found is not None and found[0].role is Role.ADMIN


def unix_user() -> str:
    """The login name of who runs this process, in the letters that a user's name may have here."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"u{os.geteuid()}"
    name = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:32]
    return name if re.match(r"[a-z_]", name) else f"u{name}"[:32]


def _read_if_there(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None


def _write_private(path: Path, text: str) -> None:
    """Never readable by others, never half written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    temporary.replace(path)
