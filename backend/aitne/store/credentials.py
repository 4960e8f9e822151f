"""Store of access tokens, single-use secrets and counts of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.access_token import Token
from aitne.core.models.user import User
from aitne.store import sign_in_tables, tables
from aitne.store.portable_sql import upsert
from aitne.store.rows import make_token_from_row, make_user_from_row
from aitne.store.security_events import append_security_event
from aitne.store.sign_ins_and_identities import make_hub_logout_update
from aitne.store.store_part import StorePart

_users = tables.users
_sessions = sign_in_tables.web_sessions
_tokens = sign_in_tables.tokens
_secrets = sign_in_tables.secrets
_attempts = sign_in_tables.attempts
_TOKEN_COLUMNS = [_tokens.c[name] for name in Token.model_fields]
_TOKEN_USER = (
    select(_users, *(column.label(f"token_{column.name}") for column in _TOKEN_COLUMNS))
    .join(_tokens, _tokens.c.owner == _users.c.name)
    .where(_tokens.c.token_hash == bindparam("hash"), _users.c.disabled.is_(False))
)
_USE_NOTED_EVERY = timedelta(minutes=1)
MAX_TOKENS = 100
"""Maximum number of personal access tokens of one user."""


class CredentialStore(StorePart):
    """Storage of the credentials of users: tokens and single-use secrets. Only hashes of secrets are stored."""

    async def create_token(self, token: Token, token_hash: str, *, notify: bool = False) -> None:
        """Store an access token with the hash of its secret; with ``notify``, its owner is
        notified.

        Raises ``NotFound`` if there is no such user, ``Conflict`` if the user has too many.
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
                    append_security_event(tx, token.owner, about)
        except IntegrityError as error:
            raise NotFound("user", token.owner) from error

    async def find_token_user(self, token_hash: str, now: datetime) -> tuple[User, Token] | None:
        """Return the user and the access token, and record the token's use (at most once a minute);
        None if the token is unknown or expired, or its user is disabled.
        """
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
            await self._db.execute_nonessential(used.values(last_used_at=now))
            token = token.model_copy(update={"last_used_at": now})
        return make_user_from_row(row), token

    async def list_tokens(self, owner: str) -> Sequence[Token]:
        """List the owner's tokens, newest first."""
        query = (
            select(*_TOKEN_COLUMNS)
            .where(_tokens.c.owner == owner)
            .order_by(_tokens.c.created_at.desc(), _tokens.c.id)
        )
        async with self._db.read() as connection:
            return [
                make_token_from_row(row) for row in (await connection.execute(query)).mappings()
            ]

    async def delete_token(self, owner: str, token_id: str) -> Token:
        """Delete an access token and the sign-ins that were created with it, and return the token.
        Raises ``NotFound``.
        """
        async with self._db.write() as tx:
            statement = delete(_tokens).where(_tokens.c.id == token_id, _tokens.c.owner == owner)
            row = (await tx.execute(statement.returning(*_TOKEN_COLUMNS))).mappings().first()
            if row is None:
                raise NotFound("token", token_id)
            behind = delete(_sessions).where(_sessions.c.token_id == token_id)
            if (await tx.execute(behind)).rowcount:
                await tx.execute(make_hub_logout_update(owner))
        return make_token_from_row(row)

    async def add_single_use_secret(
        self, purpose: str, secret_hash: str, owner: str, expires_at: datetime, data: dict[str, Any]
    ) -> None:
        """Store a short-lived secret that can be used once. ``purpose`` tells its kind: a login
        link, an OAuth code or an OAuth access token.
        """
        row = {
            "purpose": purpose,
            "secret_hash": secret_hash,
            "owner": owner,
            "expires_at": expires_at,
            "data": data,
        }
        async with self._db.write() as tx:
            await tx.execute(upsert(tx.dialect, _secrets, row, ["purpose", "secret_hash"]))

    async def consume_single_use_secret(
        self, purpose: str, secret_hash: str, now: datetime
    ) -> tuple[str, dict[str, Any]] | None:
        """Delete a single-use secret and return its owner and data; None if it was taken before,
        has expired or does not exist.
        """
        statement = (
            delete(_secrets)
            .where(_secrets.c.purpose == purpose, _secrets.c.secret_hash == secret_hash)
            .returning(_secrets.c.owner, _secrets.c.data, _secrets.c.expires_at)
        )
        async with self._db.write() as tx:
            row = (await tx.execute(statement)).first()
        return None if row is None or row.expires_at <= now else (row.owner, row.data)

    async def record_attempt(self, key: str, now: datetime, *, window_s: float) -> int:
        """Count one event under ``key`` (such as an address from which passwords are sent).

        Returns the number of events under ``key`` in the last ``window_s`` seconds, including this
        one.
        """
        window = _attempts.c.time > now - timedelta(seconds=window_s)
        async with self._db.write() as tx:
            await tx.execute(insert(_attempts), {"key": key, "time": now})
            query = select(func.count()).select_from(_attempts).where(_attempts.c.key == key)
            count: int = (await tx.execute(query.where(window))).scalar_one()
        return count

    async def delete_last_attempt(self, key: str) -> None:
        """Delete the newest event that ``record_attempt`` counted under ``key``.

        Called after a successful login, which does not count toward the limit of its address.
        """
        last = (
            select(_attempts.c.id)
            .where(_attempts.c.key == key)
            .order_by(_attempts.c.time.desc(), _attempts.c.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        async with self._db.write() as tx:
            await tx.execute(delete(_attempts).where(_attempts.c.id == last))

    async def delete_attempts(self, key: str) -> None:
        """Delete all events that ``record_attempt`` counted under ``key``."""
        async with self._db.write() as tx:
            await tx.execute(delete(_attempts).where(_attempts.c.key == key))
