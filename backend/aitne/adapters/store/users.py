"""Store of users, of their membership in projects, and of their credentials."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from typing_extensions import override

from aitne.adapters.store import sign_in_tables, tables
from aitne.adapters.store.base import StorePart
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.portable import insert_if_absent, upsert
from aitne.adapters.store.project_rows import project_row
from aitne.adapters.store.rows import token_of, user_of
from aitne.adapters.store.security_events import note_security
from aitne.adapters.store.sign_ins import end_session_tokens, hub_logout
from aitne.core.errors import Conflict, NotFound
from aitne.core.models.user import Project, Role, Token, User
from aitne.core.ports.store import Check, UserStore

_users = tables.users
_projects = tables.projects
_members = tables.members
_sessions = sign_in_tables.web_sessions
_tokens = sign_in_tables.tokens
_secrets = sign_in_tables.secrets
_attempts = sign_in_tables.attempts

_USER_COLUMNS = [_users.c[name] for name in User.model_fields]
_ADMINISTRATOR = (_users.c.role == Role.ADMIN) & _users.c.disabled.is_(False)
_TOKEN_COLUMNS = [_tokens.c[name] for name in Token.model_fields]
_TOKEN_USER = (
    select(_users, *(column.label(f"token_{column.name}") for column in _TOKEN_COLUMNS))
    .join(_tokens, _tokens.c.owner == _users.c.name)
    .where(_tokens.c.token_hash == bindparam("hash"), _users.c.disabled.is_(False))
)
_USE_NOTED_EVERY = timedelta(minutes=1)
MAX_TOKENS = 100
"""Maximum number of personal access tokens of one user."""


class SqlUsers(StorePart, UserStore):
    """Part of ``UserStore`` about users and projects."""

    @override
    async def create_user(self, user: User, password_hash: str | None, project: Project) -> User:
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

    @override
    async def get_user(self, name: str) -> User:
        query = select(*_USER_COLUMNS).where(_users.c.name == name)
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            raise NotFound("user", name)
        return user_of(row)

    @override
    async def user_alike(self, name: str) -> User | None:
        query = select(*_USER_COLUMNS).where(func.lower(_users.c.name) == name.lower())
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else user_of(row)

    @override
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
                await tx.take("administrators")
            row = (await tx.execute(query.with_for_update())).mappings().first()
            if row is None:
                raise NotFound("user", name)
            if check is not None:
                check(user_of(row))
            if demotes:
                await _check_not_last_administrator(tx, name)
            if values:
                await tx.execute(update(_users).where(_users.c.name == name).values(values))
                row = (await tx.execute(query)).mappings().one()
            if disabled or password_hash is not None:
                await tx.execute(delete(_sessions).where(_sessions.c.owner == name))
                await tx.execute(delete(_secrets).where(_secrets.c.owner == name))
                await tx.execute(end_session_tokens(tx.dialect, name))
                await tx.execute(hub_logout(name))
            if password_hash is not None:
                note_security(tx, name, {"change": "password"})
        return user_of(row)

    @override
    async def list_administrators(self) -> Sequence[User]:
        query = select(*_USER_COLUMNS).where(_ADMINISTRATOR).order_by(_users.c.name)
        async with self._db.read() as connection:
            return [user_of(row) for row in (await connection.execute(query)).mappings()]

    @override
    async def password_hash(self, name: str) -> str | None:
        """Return the user's password hash; None if the user does not exist or has no password."""
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


class Credentials(StorePart, UserStore):
    """Part of ``UserStore`` about the credentials of users. Only hashes of secrets are stored."""

    @override
    async def create_token(self, token: Token, token_hash: str, *, notify: bool = False) -> None:
        """Store a personal access token; with ``notify`` also an event of which its owner is
        notified.
        """
        row = {
            **token.model_dump(),
            "scopes": sorted(token.scopes),
            "token_hash": token_hash,
        }
        try:
            async with self._db.write() as tx:
                count = select(func.count()).where(_tokens.c.owner == token.owner)
                if (await tx.execute(count)).scalar_one() >= MAX_TOKENS:
                    raise Conflict(
                        f"{token.owner} already has {MAX_TOKENS} tokens. Revoke one that is not used."
                    )
                await tx.execute(insert(_tokens), row)
                if notify:
                    about = {"change": "token", "name": token.name, "by": token.created_by}
                    note_security(tx, token.owner, about)
        except IntegrityError as error:
            raise NotFound("user", token.owner) from error

    @override
    async def token_user(self, token_hash: str, now: datetime) -> tuple[User, Token] | None:
        async with self._db.read(brief=True) as connection:
            found = await connection.execute(_TOKEN_USER, {"hash": token_hash})
            row = found.mappings().first()
        if row is None:
            return None
        token = Token.model_validate({name: row[f"token_{name}"] for name in Token.model_fields})
        if token.expires_at is not None and token.expires_at <= now:
            return None
        if token.last_used_at is None or now - token.last_used_at >= _USE_NOTED_EVERY:
            used = update(_tokens).where(_tokens.c.id == token.id)
            await self._db.note(used.values(last_used_at=now))
            token = token.model_copy(update={"last_used_at": now})
        return user_of(row), token

    @override
    async def list_tokens(self, owner: str) -> Sequence[Token]:
        """Return the owner's tokens, newest first."""
        query = (
            select(*_TOKEN_COLUMNS)
            .where(_tokens.c.owner == owner)
            .order_by(_tokens.c.created_at.desc(), _tokens.c.id)
        )
        async with self._db.read() as connection:
            return [token_of(row) for row in (await connection.execute(query)).mappings()]

    @override
    async def delete_token(self, owner: str, token_id: str) -> Token:
        async with self._db.write() as tx:
            statement = delete(_tokens).where(_tokens.c.id == token_id, _tokens.c.owner == owner)
            row = (await tx.execute(statement.returning(*_TOKEN_COLUMNS))).mappings().first()
            if row is None:
                raise NotFound("token", token_id)
            behind = delete(_sessions).where(_sessions.c.token_id == token_id)
            if (await tx.execute(behind)).rowcount:
                await tx.execute(hub_logout(owner))
        return token_of(row)

    @override
    async def put_secret(
        self, purpose: str, secret_hash: str, owner: str, expires_at: datetime, data: dict[str, Any]
    ) -> None:
        row = {
            "purpose": purpose,
            "secret_hash": secret_hash,
            "owner": owner,
            "expires_at": expires_at,
            "data": data,
        }
        async with self._db.write() as tx:
            await tx.execute(upsert(tx.dialect, _secrets, row, ["purpose", "secret_hash"]))

    @override
    async def take_secret(
        self, purpose: str, secret_hash: str, now: datetime
    ) -> tuple[str, dict[str, Any]] | None:
        statement = (
            delete(_secrets)
            .where(_secrets.c.purpose == purpose, _secrets.c.secret_hash == secret_hash)
            .returning(_secrets.c.owner, _secrets.c.data, _secrets.c.expires_at)
        )
        async with self._db.write() as tx:
            row = (await tx.execute(statement)).first()
        return None if row is None or row.expires_at <= now else (row.owner, row.data)

    @override
    async def note_attempt(self, key: str, now: datetime, *, window_s: float) -> int:
        window = _attempts.c.time > now - timedelta(seconds=window_s)
        async with self._db.write() as tx:
            await tx.execute(insert(_attempts), {"key": key, "time": now})
            query = select(func.count()).select_from(_attempts).where(_attempts.c.key == key)
            count: int = (await tx.execute(query.where(window))).scalar_one()
        return count

    @override
    async def delete_last_attempt(self, key: str) -> None:
        last = (
            select(_attempts.c.id)
            .where(_attempts.c.key == key)
            .order_by(_attempts.c.time.desc(), _attempts.c.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        async with self._db.write() as tx:
            await tx.execute(delete(_attempts).where(_attempts.c.id == last))

    @override
    async def clear_attempts(self, key: str) -> None:
        """Delete the attempts (such as failed logins) that were counted under ``key``."""
        async with self._db.write() as tx:
            await tx.execute(delete(_attempts).where(_attempts.c.key == key))
