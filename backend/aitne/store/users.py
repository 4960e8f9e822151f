"""Store of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.project import Project
from aitne.core.models.user import Role, User
from aitne.store import sign_in_tables, tables
from aitne.store.database import Transaction
from aitne.store.portable_sql import insert_if_absent
from aitne.store.project_rows import project_row
from aitne.store.rows import make_user_from_row
from aitne.store.security_events import append_security_event
from aitne.store.sign_ins_and_identities import (
    make_hub_logout_update,
    make_session_token_revocation,
)
from aitne.store.store_part import Check, StorePart

_users = tables.users
_projects = tables.projects
_members = tables.members
_sessions = sign_in_tables.web_sessions
_tokens = sign_in_tables.tokens
_secrets = sign_in_tables.secrets

_USER_COLUMNS = [_users.c[name] for name in User.model_fields]
_ADMINISTRATOR = (_users.c.role == Role.ADMIN) & _users.c.disabled.is_(False)


class UserStore(StorePart):
    """Storage of users."""

    async def create_user(self, user: User, password_hash: str | None, project: Project) -> User:
        """Create the user, and the project if it does not exist, and make the user its member.

        Raises ``Conflict`` if the user name is taken.
        """
        try:
            async with self._db.write() as tx:
                row = {**user.model_dump(), "password_hash": password_hash}
                await tx.execute(insert(_users), row)
                await tx.execute(
                    insert_if_absent(tx.dialect, _projects).values(project_row(project))
                )
                membership = {"user_name": user.name, "project": project.name}
                await tx.execute(insert(_members), membership)
        except IntegrityError as error:
            raise Conflict(
                f"The user {user.name} already exists, perhaps with other capital letters. Choose "
                "another name."
            ) from error
        return user

    async def get_user(self, name: str) -> User:
        """Return the user with this name. Raises ``NotFound``."""
        query = select(*_USER_COLUMNS).where(_users.c.name == name)
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            raise NotFound("user", name)
        return make_user_from_row(row)

    async def find_user_ignoring_case(self, name: str) -> User | None:
        """Return the user whose name is ``name`` but for capital letters, of whom there is at most
        one; None if there is none.
        """
        query = select(*_USER_COLUMNS).where(func.lower(_users.c.name) == name.lower())
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else make_user_from_row(row)

    async def update_user(
        self,
        name: str,
        *,
        display_name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        password_hash: str | None = None,
        mail: str | None = None,
        source: str | None = None,
        check: Check[User] = None,
    ) -> User:
        """Change those fields of a user whose arguments are not None. Disabling the user or setting
        a password ends the user's sign-ins.

        ``source`` names the identity source that authenticates the user from now on, and deletes
        the password; ``""`` stands for the platform's own passwords. ``mail=""`` removes the
        address. Raises ``NotFound``, and ``Conflict`` if no enabled administrator would be left.
        """
        # Unused login links and codes are deleted together with the web sessions.
        changes = {
            "display_name": display_name,
            "role": role,
            "disabled": disabled,
            "password_hash": password_hash,
        }
        values: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
        if mail is not None:
            values["mail"] = mail or None
        if source is not None:
            values |= {"source": source or None, "subject": None}
        if source:
            values["password_hash"] = None
        query = select(*_USER_COLUMNS).where(_users.c.name == name)
        demotes = role is Role.USER or disabled is True
        async with self._db.write() as tx:
            if demotes:
                await tx.acquire_lock("administrators")
            row = (await tx.execute(query.with_for_update())).mappings().first()
            if row is None:
                raise NotFound("user", name)
            if check is not None:
                check(make_user_from_row(row))
            if demotes:
                await _check_not_last_administrator(tx, name)
            if values:
                await tx.execute(update(_users).where(_users.c.name == name).values(values))
                row = (await tx.execute(query)).mappings().one()
            if disabled or password_hash is not None:
                await tx.execute(delete(_sessions).where(_sessions.c.owner == name))
                await tx.execute(delete(_secrets).where(_secrets.c.owner == name))
                await tx.execute(make_session_token_revocation(tx.dialect, name))
                await tx.execute(make_hub_logout_update(name))
            if password_hash is not None:
                append_security_event(tx, name, {"change": "password"})
        return make_user_from_row(row)

    async def list_administrators(self) -> Sequence[User]:
        """Return the enabled administrators by name."""
        query = select(*_USER_COLUMNS).where(_ADMINISTRATOR).order_by(_users.c.name)
        async with self._db.read() as connection:
            return [make_user_from_row(row) for row in (await connection.execute(query)).mappings()]

    async def find_password_hash(self, name: str) -> str | None:
        """Return the hash of the user's password; None if there is no such user or the user has no
        password.
        """
        query = select(_users.c.password_hash).where(_users.c.name == name)
        async with self._db.read() as connection:
            password_hash: str | None = (await connection.execute(query)).scalar()
        return password_hash


async def _check_not_last_administrator(tx: Transaction, name: str) -> None:
    names = list((await tx.execute(select(_users.c.name).where(_ADMINISTRATOR).limit(2))).scalars())
    if names == [name]:
        raise Conflict(
            f"{name} is the only administrator. Make another user an administrator first, so that "
            "the platform can still be administered."
        )
