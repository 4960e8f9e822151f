"""Store of second factors, and of lockouts after failed logins."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from typing_extensions import override

from aitne.adapters.store.base import StorePart
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.portable import insert_if_absent
from aitne.adapters.store.security_events import note_security
from aitne.adapters.store.sign_in_tables import lockouts, recovery_codes, second_factors
from aitne.core.errors import Conflict, NotFound
from aitne.core.models.sign_in import LoginAttempt, SecondFactor
from aitne.core.ports.store import SignInStore

_MOST_DOUBLINGS = 32
"""Number of failed logins after which the lockout, whose duration doubles each time, certainly has
the maximum duration.
"""


class Factors(StorePart, SignInStore):
    """Part of ``SignInStore`` about second factors and lockouts."""

    @override
    async def begin_attempt(
        self, key: str, now: datetime, *, most: int, window_s: float, longest_s: float
    ) -> LoginAttempt:
        condition = lockouts.c.key == key
        async with self._db.write() as tx:
            # The row is inserted first, so that two concurrent attempts are counted as two.
            await tx.execute(
                insert_if_absent(tx.dialect, lockouts),
                {"key": key, "failures": 0, "failed_at": now},
            )
            row = (await tx.execute(select(lockouts).where(condition).with_for_update())).one()
            if row.locked_until is not None and row.locked_until > now:
                return LoginAttempt(
                    failures=row.failures, locked_until=row.locked_until, counted=False
                )
            forgotten_after = timedelta(seconds=window_s if row.locked_until is None else longest_s)
            since = row.locked_until or row.failed_at
            failures = 1 if now - since > forgotten_after else row.failures + 1
            locked_until = None
            if failures >= most:
                doublings = min(failures - most, _MOST_DOUBLINGS)
                locked_until = now + timedelta(seconds=min(window_s * 2**doublings, longest_s))
            values = {"failures": failures, "failed_at": now, "locked_until": locked_until}
            await tx.execute(update(lockouts).where(condition).values(values))
        return LoginAttempt(failures=failures, locked_until=locked_until, counted=True)

    @override
    async def take_back_attempt(self, key: str, now: datetime, *, most: int) -> None:
        condition = (lockouts.c.key == key) & (lockouts.c.failures > 0)
        failures = lockouts.c.failures - 1
        # A lockout that had expired before that attempt is kept.
        over = case((failures >= most, now), else_=None)
        async with self._db.write() as tx:
            await tx.execute(
                update(lockouts).where(condition).values(failures=failures, locked_until=over)
            )

    @override
    async def locked_until(self, key: str, now: datetime) -> datetime | None:
        query = select(lockouts.c.locked_until).where(lockouts.c.key == key)
        async with self._db.read() as connection:
            until: datetime | None = (await connection.execute(query)).scalar()
        return until if until is not None and until > now else None

    @override
    async def clear_lockout(self, key: str, *, below: bool = False) -> bool:
        which = lockouts.c.key == key
        if below:
            which |= lockouts.c.key.startswith(f"{key}/", autoescape=True)
        async with self._db.write() as tx:
            result = await tx.execute(delete(lockouts).where(which))
        return result.rowcount > 0

    @override
    async def second_factor(self, owner: str) -> SecondFactor | None:
        query = select(second_factors).where(second_factors.c.owner == owner)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else SecondFactor.model_validate(dict(row))

    @override
    async def enrol_second_factor(self, factor: SecondFactor) -> None:
        unconfirmed = delete(second_factors).where(
            second_factors.c.owner == factor.owner, second_factors.c.confirmed_at.is_(None)
        )
        existing = select(second_factors.c.owner).where(second_factors.c.owner == factor.owner)
        try:
            async with self._db.write() as tx:
                await tx.execute(unconfirmed)
                if (await tx.execute(existing)).first() is not None:
                    raise Conflict(
                        f"{factor.owner} already has a second factor. Remove it first, then set up "
                        "another one."
                    )
                await tx.execute(insert(second_factors), factor.model_dump())
        except IntegrityError as error:
            raise NotFound("user", factor.owner) from error

    @override
    async def confirm_second_factor(
        self, owner: str, now: datetime, step: int, code_hashes: Collection[str]
    ) -> bool:
        pending = (
            update(second_factors)
            .where(second_factors.c.owner == owner, second_factors.c.confirmed_at.is_(None))
            .values(confirmed_at=now, last_step=step)
        )
        async with self._db.write() as tx:
            if not (await tx.execute(pending)).rowcount:
                return False
            await _replace_codes(tx, owner, code_hashes)
        return True

    @override
    async def use_step(self, owner: str, step: int) -> bool:
        unused = update(second_factors).where(
            second_factors.c.owner == owner, second_factors.c.last_step < step
        )
        async with self._db.write() as tx:
            return (await tx.execute(unused.values(last_step=step))).rowcount > 0

    @override
    async def put_recovery_codes(self, owner: str, code_hashes: Collection[str]) -> None:
        async with self._db.write() as tx:
            await _replace_codes(tx, owner, code_hashes)

    @override
    async def use_recovery_code(self, owner: str, code_hash: str) -> bool:
        statement = delete(recovery_codes).where(
            recovery_codes.c.owner == owner, recovery_codes.c.code_hash == code_hash
        )
        async with self._db.write() as tx:
            return (await tx.execute(statement)).rowcount > 0

    @override
    async def count_recovery_codes(self, owner: str) -> int:
        query = select(func.count()).where(recovery_codes.c.owner == owner)
        async with self._db.read() as connection:
            count: int = (await connection.execute(query)).scalar_one()
        return count

    @override
    async def delete_second_factor(self, owner: str) -> bool:
        async with self._db.write() as tx:
            await tx.execute(delete(recovery_codes).where(recovery_codes.c.owner == owner))
            result = await tx.execute(delete(second_factors).where(second_factors.c.owner == owner))
            if result.rowcount:
                note_security(tx, owner, {"change": "second_factor"})
        return result.rowcount > 0


async def _replace_codes(tx: Transaction, owner: str, code_hashes: Collection[str]) -> None:
    await tx.execute(delete(recovery_codes).where(recovery_codes.c.owner == owner))
    rows = [{"owner": owner, "code_hash": code_hash} for code_hash in code_hashes]
    if rows:
        await tx.execute(insert(recovery_codes), rows)
