"""Store of the ends of credentials: of those whose time is over, and of logins at JupyterHub."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, or_, select, update

from aitne.core.models.sign_in_records import HubLogout
from aitne.core.users.ended_credentials import impersonation_id
from aitne.store import sign_in_tables, tables
from aitne.store.jobs import LIVE_STATES
from aitne.store.sign_ins_and_identities import valid_at
from aitne.store.store_part import StorePart

_users = tables.users
_jobs = tables.jobs
_sessions = sign_in_tables.web_sessions
_tokens = sign_in_tables.tokens


class CredentialExpiryStore(StorePart):
    """Storage of the ends of credentials."""

    async def list_hub_logouts(self, now: datetime) -> Sequence[HubLogout]:
        """Return what JupyterHub has to end, for each user whose sign-ins were revoked, or have
        expired before ``now``, since its last ``finish_hub_logout``.
        """
        over = select(_sessions.c.owner).where(_sessions.c.expires_at <= now)
        due = (
            select(
                _users.c.name,
                _users.c.hub_logouts,
                _sessions.c.id,
                (_sessions.c.expires_at <= now).label("expired"),
            )
            .outerjoin(_sessions, _sessions.c.owner == _users.c.name)
            .where(or_(_users.c.hub_logouts > 0, _users.c.name.in_(over)))
            .order_by(_users.c.name)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(due)).all()
        logouts = []
        for (owner, count), group in groupby(rows, key=lambda row: (row.name, row.hub_logouts)):
            sign_ins = [row for row in group if row.id is not None]
            expired = frozenset(row.id for row in sign_ins if row.expired)
            valid = frozenset(row.id for row in sign_ins if not row.expired)
            logouts.append(HubLogout(owner=owner, count=count, expired=expired, valid=valid))
        return logouts

    async def finish_hub_logout(self, logout: HubLogout) -> None:
        """Record that JupyterHub has carried out the logout. What was revoked or has expired since
        it was read is still to be ended.
        """
        same = (_users.c.name == logout.owner, _users.c.hub_logouts == logout.count)
        async with self._db.write() as tx:
            await tx.execute(update(_users).where(*same).values(hub_logouts=0))
            await tx.execute(delete(_sessions).where(_sessions.c.id.in_(logout.expired)))

    async def list_expired_credentials(self, after: datetime, until: datetime) -> frozenset[str]:
        """Return the IDs, as ``Actor.credential``, of the sign-ins, impersonations and access tokens
        whose time was over later than ``after``, and at ``until`` at the latest.
        """

        def over(column: ColumnElement[datetime]) -> ColumnElement[bool]:
            return (column > after) & (column <= until)

        ends = over(_sessions.c.expires_at) | over(_sessions.c.idle_ends_at)
        sign_ins = select(_sessions.c.id).where(ends)
        impersonations = select(_sessions.c.id, _sessions.c.acting_as).where(
            over(_sessions.c.acting_until)
        )
        tokens = select(_tokens.c.id).where(over(_tokens.c.expires_at))
        async with self._db.read() as connection:
            ids = {
                *(await connection.execute(sign_ins)).scalars(),
                *(await connection.execute(tokens)).scalars(),
            }
            rows = (await connection.execute(impersonations)).all()
        return frozenset(ids | {impersonation_id(row.id, row.acting_as) for row in rows})

    async def find_next_expiry(self, after: datetime) -> datetime | None:
        """Return the first time later than ``after`` at which the time of a sign-in, an
        impersonation or an access token is over; None if there is none.
        """
        columns = (
            _sessions.c.expires_at,
            _sessions.c.idle_ends_at,
            _sessions.c.acting_until,
            _tokens.c.expires_at,
        )
        async with self._db.read() as connection:
            times = [
                (await connection.execute(select(func.min(column)).where(column > after))).scalar()
                for column in columns
            ]
        return min((time for time in times if time is not None), default=None)

    async def is_credential_valid(self, credential: str, now: datetime) -> bool:
        """Return whether the credential with this ID (``Actor.credential``) exists and has not
        ended. Whether its user is disabled is not checked.
        """
        sign_in_id, _, acting_as = credential.partition("/")
        sign_in = (_sessions.c.id == sign_in_id) & valid_at(now)
        if acting_as:
            sign_in &= (_sessions.c.acting_as == acting_as) & (_sessions.c.acting_until > now)
        token = (_tokens.c.id == credential) & (
            _tokens.c.expires_at.is_(None) | (_tokens.c.expires_at > now)
        )
        queries = [select(_sessions.c.id).where(sign_in), select(_tokens.c.id).where(token)]
        if (session := _parse_uuid(credential)) is not None:
            live = (_jobs.c.id == session) & _jobs.c.state.in_(LIVE_STATES)
            queries = [select(_jobs.c.id).where(live)]
        async with self._db.read(brief=True) as connection:
            for query in queries:
                if (await connection.execute(query)).first() is not None:
                    return True
        return False


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None
