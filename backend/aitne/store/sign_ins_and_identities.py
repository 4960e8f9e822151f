"""Store of browser logins, and of the accounts of users from external identity sources."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Insert,
    Update,
    and_,
    case,
    delete,
    func,
    insert,
    null,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.job import JobType
from aitne.core.models.sign_in_records import OpenSignIn, SignIn
from aitne.core.models.user import Role, User
from aitne.store import sign_in_tables, tables
from aitne.store.jobs import LIVE_STATES
from aitne.store.portable_sql import upsert_selected
from aitne.store.rows import make_user_from_row
from aitne.store.security_events import append_security_event
from aitne.store.store_part import StorePart

_users = tables.users
_sessions = sign_in_tables.web_sessions
_secrets = sign_in_tables.secrets
_tokens = sign_in_tables.tokens
_jobs = tables.jobs
_job_secrets = tables.job_secrets
_USER_COLUMNS = [_users.c[name] for name in User.model_fields]
_SIGN_IN_COLUMNS = [_sessions.c[name] for name in SignIn.model_fields]
_INVALID = "invalid "
"""Begin of what replaces the hash of a sign-in token that is no longer valid."""
_USE_NOTED_EVERY = timedelta(minutes=1)


def valid_at(now: datetime) -> ColumnElement[bool]:
    """Return the condition that the time of a sign-in is not over at ``now``."""
    idle = func.coalesce(_sessions.c.idle_ends_at, _sessions.c.expires_at)
    return and_(_sessions.c.expires_at > now, idle > now)


def make_hub_logout_update(owner: str) -> Update:
    """Return the statement that increments the owner's counter of logins that must be ended at
    JupyterHub.
    """
    return update(_users).where(_users.c.name == owner).values(hub_logouts=_users.c.hub_logouts + 1)


def make_session_token_revocation(dialect: str, owner: str) -> Insert:
    """Return the statement that revokes the tokens of all sessions of the owner, and prevents that
    those that have none yet, or start again, get one.
    """
    columns = ("job_id", "session_token_hash", "session_token_ended")
    live = and_(_jobs.c.type == JobType.SESSION, _jobs.c.state.in_(LIVE_STATES))
    rows = select(_jobs.c.id, null(), true()).where(_jobs.c.owner == owner, live)
    return upsert_selected(dialect, _job_secrets, columns, rows.order_by(_jobs.c.id), columns[:1])


class SignInStore(StorePart):
    """Storage of browser logins, and of users' accounts in identity sources."""

    async def create_sign_in(
        self, sign_in: SignIn, token_hash: str, csrf: str, *, notify: bool = False
    ) -> None:
        """Store a new sign-in with the hash of its sign-in token and its CSRF token. ``notify``
        sends a notification to the user.

        Raises ``NotFound`` if the user, or the access token used for the login, no longer exists.
        """
        row = {**sign_in.model_dump(), "token_hash": token_hash, "csrf": csrf}
        behind = select(_tokens.c.id).where(_tokens.c.id == sign_in.token_id).with_for_update()
        try:
            async with self._db.write() as tx:
                if sign_in.token_id is not None and (await tx.execute(behind)).first() is None:
                    raise NotFound("token", sign_in.token_id)
                await tx.execute(insert(_sessions), row)
                login = update(_users).where(_users.c.name == sign_in.owner)
                await tx.execute(login.values(last_login_at=sign_in.created_at))
                if notify:
                    about = {"change": "sign_in", "device": sign_in.device}
                    append_security_event(tx, sign_in.owner, {**about, "address": sign_in.address})
        except IntegrityError as error:
            raise NotFound("user", sign_in.owner) from error

    async def find_sign_in(
        self,
        token_hash: str,
        now: datetime,
        address: str | None,
        *,
        idle_ends_at: datetime | None = None,
    ) -> OpenSignIn | None:
        """Return the sign-in of this sign-in token and record the request (at most once a minute);
        None if it has ended or its user is disabled.

        ``idle_ends_at`` is the time until which the request keeps the sign-in from ending because it
        is not used; None: it does not.

        An impersonating sign-in acts as ``acting_as`` until ``acting_until``, as long as its owner
        is an administrator and the other user is neither an administrator nor disabled.
        """
        query = (
            select(
                *_SIGN_IN_COLUMNS,
                _sessions.c.csrf,
                _tokens.c.expires_at.label("token_expires_at"),
                _tokens.c.created_by.label("token_created_by"),
            )
            .outerjoin(_tokens, _tokens.c.id == _sessions.c.token_id)
            .where(_sessions.c.token_hash == token_hash, valid_at(now))
        )
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
            if row is None:
                return None
            names = {row["owner"], row["acting_as"]} - {None}
            people = select(*_USER_COLUMNS).where(
                _users.c.name.in_(names), _users.c.disabled.is_(False)
            )
            rows = (await connection.execute(people)).mappings()
            users = {user_row["name"]: make_user_from_row(user_row) for user_row in rows}
        owner = users.get(row["owner"])
        if owner is None:
            return None
        sign_in = SignIn.model_validate({name: row[name] for name in SignIn.model_fields})
        other = users.get(sign_in.acting_as or "")
        acts = (
            other is not None
            and sign_in.acting_until is not None
            and sign_in.acting_until > now
            and owner.role is Role.ADMIN
            and other.role is not Role.ADMIN
        )
        values: dict[str, Any] = {}
        if now - sign_in.last_seen_at >= _USE_NOTED_EVERY:
            values |= {"last_seen_at": now, "address": address or sign_in.address}
        if idle_ends_at is not None and (
            sign_in.idle_ends_at is None or idle_ends_at - sign_in.idle_ends_at >= _USE_NOTED_EVERY
        ):
            values["idle_ends_at"] = idle_ends_at
        if values:
            used = update(_sessions).where(_sessions.c.token_hash == token_hash)
            await self._db.execute_nonessential(used.values(values))
            sign_in = sign_in.model_copy(update=values)
        user = other if acts and other is not None else owner
        return OpenSignIn(
            user=user,
            csrf=row["csrf"],
            sign_in=sign_in,
            token_expires_at=row["token_expires_at"],
            token_created_by=row["token_created_by"],
        )

    async def end_sign_in(self, token_hash: str, now: datetime) -> None:
        """End the sign-in of this sign-in token, as if it expired ``now``. An unknown token is not an
        error.
        """
        await self._invalidate_session(token_hash, {"expires_at": now}, now)

    async def replace_sign_in(self, token_hash: str, owner: str, now: datetime) -> None:
        """Invalidate this sign-in token, because the user ``owner`` has just logged in in the same
        browser.

        What was opened with the sign-in continues until its expiry if it was the same user's;
        otherwise the sign-in ends. An unknown token is not an error.
        """
        same = case((_sessions.c.owner == owner, _sessions.c.expires_at), else_=now)
        await self._invalidate_session(token_hash, {"expires_at": same}, now)

    async def _invalidate_session(
        self, token_hash: str, values: dict[str, Any], now: datetime
    ) -> None:
        # The row stays until JupyterHub has ended the logins that were opened with it.
        values["token_hash"] = _INVALID + _sessions.c.id
        this = (_sessions.c.token_hash == token_hash, _sessions.c.expires_at > now)
        async with self._db.write() as tx:
            await tx.execute(update(_sessions).where(*this).values(values))

    async def list_sign_ins(self, owner: str, now: datetime) -> Sequence[SignIn]:
        """List the owner's sign-ins that are valid at ``now``, the most recently used first."""
        query = (
            select(*_SIGN_IN_COLUMNS)
            .where(
                _sessions.c.owner == owner,
                valid_at(now),
                _sessions.c.token_hash.not_like(f"{_INVALID}%"),
            )
            .order_by(_sessions.c.last_seen_at.desc(), _sessions.c.id)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [SignIn.model_validate(dict(row)) for row in rows]

    async def find_sign_in_id(self, token_hash: str) -> str | None:
        """Return the public ID of the sign-in with this sign-in token; None if there is none."""
        query = select(_sessions.c.id).where(_sessions.c.token_hash == token_hash)
        async with self._db.read() as connection:
            sign_in_id: str | None = (await connection.execute(query)).scalar()
        return sign_in_id

    async def revoke_sign_in(self, owner: str, sign_in_id: str) -> None:
        """Revoke one sign-in of the owner, and delete the owner's unused login links and OAuth
        codes. Raises ``NotFound``.
        """
        statement = delete(_sessions).where(
            _sessions.c.id == sign_in_id, _sessions.c.owner == owner
        )
        async with self._db.write() as tx:
            if not (await tx.execute(statement)).rowcount:
                raise NotFound("sign-in", sign_in_id)
            # It is unknown which browser has a code.
            await tx.execute(delete(_secrets).where(_secrets.c.owner == owner))
            await tx.execute(make_hub_logout_update(owner))

    async def revoke_sign_ins(self, owner: str, *, keep: str | None = None) -> int:
        """Revoke all sign-ins of the owner, and delete unused login links and OAuth codes; return
        the number of revoked sign-ins.

        ``keep`` is the hash of the sign-in token of one sign-in that stays valid.
        """
        statement = delete(_sessions).where(_sessions.c.owner == owner)
        if keep is not None:
            statement = statement.where(_sessions.c.token_hash != keep)
        async with self._db.write() as tx:
            count = (await tx.execute(statement)).rowcount
            await tx.execute(delete(_secrets).where(_secrets.c.owner == owner))
            await tx.execute(make_session_token_revocation(tx.dialect, owner))
            await tx.execute(make_hub_logout_update(owner))
        return count

    async def record_authentication(self, token_hash: str, now: datetime) -> None:
        """Record that the user has authenticated again in the browser at ``now``. Raises
        ``NotFound``.
        """
        statement = update(_sessions).where(_sessions.c.token_hash == token_hash)
        async with self._db.write() as tx:
            if not (await tx.execute(statement.values(authenticated_at=now))).rowcount:
                raise NotFound("sign-in", "of this browser")

    async def set_impersonation(
        self, token_hash: str, csrf: str, name: str | None, until: datetime | None
    ) -> None:
        """Let requests of a sign-in act as the user ``name`` until ``until``; None: as its owner
        again.

        ``csrf`` is its new CSRF token. Raises ``NotFound`` if there is no such sign-in or user.
        """
        values = {"csrf": csrf, "acting_as": name, "acting_until": until}
        statement = update(_sessions).where(_sessions.c.token_hash == token_hash).values(values)
        try:
            async with self._db.write() as tx:
                if not (await tx.execute(statement)).rowcount:
                    raise NotFound("sign-in", "of this browser")
        except IntegrityError as error:
            raise NotFound("user", name) from error

    async def set_password(
        self, name: str, password_hash: str, *, keep: str | None, delete_tokens: bool = False
    ) -> None:
        """Set the password and end all sign-ins of the user except the one whose sign-in token has
        the hash ``keep``.

        ``delete_tokens`` also deletes the user's access tokens and the sign-ins made with them.
        Raises ``NotFound``.
        """
        async with self._db.write() as tx:
            changed = update(_users).where(_users.c.name == name)
            if not (await tx.execute(changed.values(password_hash=password_hash))).rowcount:
                raise NotFound("user", name)
            others = delete(_sessions).where(_sessions.c.owner == name)
            if keep is not None:
                others = others.where(_sessions.c.token_hash != keep)
            await tx.execute(others)
            await tx.execute(delete(_secrets).where(_secrets.c.owner == name))
            if delete_tokens:
                of_token = _sessions.c.token_id.is_not(None)
                await tx.execute(delete(_sessions).where(_sessions.c.owner == name, of_token))
                await tx.execute(delete(_tokens).where(_tokens.c.owner == name))
            append_security_event(tx, name, {"change": "password"})
            await tx.execute(make_session_token_revocation(tx.dialect, name))
            await tx.execute(make_hub_logout_update(name))

    async def find_user_by_subject(self, source: str, subject: str) -> User | None:
        """Return the user whose account in ``source`` has the identifier ``subject``; None if there
        is none.
        """
        query = select(*_USER_COLUMNS).where(_users.c.source == source, _users.c.subject == subject)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else make_user_from_row(row)

    async def find_subject(self, name: str) -> str | None:
        """Return the identifier that the account has in its identity source; None if none is
        stored.
        """
        query = select(_users.c.subject).where(_users.c.name == name)
        async with self._db.read() as connection:
            subject: str | None = (await connection.execute(query)).scalar()
        return subject

    async def set_identity_source(self, name: str, source: str | None, subject: str | None) -> User:
        """Set the account's identity source and its identifier in that source. With a source, its
        password is deleted.

        Raises ``NotFound``, and ``Conflict`` if another account has this identifier, or this account
        has another one.
        """
        values: dict[str, str | None] = {"source": source, "subject": subject}
        if source is not None:
            values["password_hash"] = None
        try:
            async with self._db.write() as tx:
                change = update(_users).where(_users.c.name == name)
                if subject is not None:
                    free = _users.c.subject.is_(None) | (_users.c.subject == subject)
                    change = change.where(free)
                tied = (await tx.execute(change.values(values))).rowcount
                query = select(*_USER_COLUMNS).where(_users.c.name == name)
                row = (await tx.execute(query)).mappings().first()
        except IntegrityError as error:
            raise Conflict(
                f"In {source}, {subject} already belongs to another account here."
            ) from error
        if row is None:
            raise NotFound("user", name)
        if not tied:
            raise Conflict(f"The account {name} belongs to another identity of {source}.")
        return make_user_from_row(row)
