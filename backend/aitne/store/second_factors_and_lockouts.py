"""Store of second factors, and of lockouts after failed logins."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.sign_in_records import LoginAttempt, SecondFactor
from aitne.store.database import Transaction
from aitne.store.portable_sql import insert_if_absent
from aitne.store.security_events import append_security_event
from aitne.store.sign_in_tables import lockouts, recovery_codes, second_factors
from aitne.store.store_part import StorePart

_MOST_DOUBLINGS = 32
"""Number of failed logins after which the lockout, whose duration doubles each time, certainly has
the maximum duration.
"""


class SecondFactorStore(StorePart):
    """Storage of second factors, and of lockouts after failed logins."""

    async def begin_login_attempt(
        self, key: str, now: datetime, *, max_failures: int, window_s: float, longest_s: float
    ) -> LoginAttempt:
        """Count a login with a password or code under ``key`` before it is checked, unless ``key``
        is locked; the result says which.

        Attempt number ``max_failures`` locks ``key`` for ``window_s`` seconds, and each further one for
        twice as long, at most ``longest_s`` seconds. The count starts again after a pause of
        ``window_s`` or, after a lock, of ``longest_s`` seconds.
        """
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
            if failures >= max_failures:
                doublings = min(failures - max_failures, _MOST_DOUBLINGS)
                locked_until = now + timedelta(seconds=min(window_s * 2**doublings, longest_s))
            values = {"failures": failures, "failed_at": now, "locked_until": locked_until}
            await tx.execute(update(lockouts).where(condition).values(values))
        return LoginAttempt(failures=failures, locked_until=locked_until, counted=True)

    async def undo_login_attempt(self, key: str, now: datetime, *, max_failures: int) -> None:
        """Undo the last ``begin_login_attempt`` under ``key`` and the lock that it caused."""
        condition = (lockouts.c.key == key) & (lockouts.c.failures > 0)
        failures = lockouts.c.failures - 1
        # A lockout that had expired before that attempt is kept.
        over = case((failures >= max_failures, now), else_=None)
        async with self._db.write() as tx:
            await tx.execute(
                update(lockouts).where(condition).values(failures=failures, locked_until=over)
            )

    async def find_lockout_end(self, key: str, now: datetime) -> datetime | None:
        """Return the time at which the lock of ``key`` ends; None if it is not locked."""
        query = select(lockouts.c.locked_until).where(lockouts.c.key == key)
        async with self._db.read() as connection:
            until: datetime | None = (await connection.execute(query)).scalar()
        return until if until is not None and until > now else None

    async def delete_lockout(self, key: str, *, below: bool = False) -> bool:
        """Delete the count and lock of ``key`` and, with ``below``, of keys that begin with ``key``
        and ``/``. Return whether there were any.
        """
        which = lockouts.c.key == key
        if below:
            which |= lockouts.c.key.startswith(f"{key}/", autoescape=True)
        async with self._db.write() as tx:
            result = await tx.execute(delete(lockouts).where(which))
        return result.rowcount > 0

    async def find_second_factor(self, owner: str) -> SecondFactor | None:
        """Return the user's second factor, which may not be confirmed yet; None if there is
        none.
        """
        query = select(second_factors).where(second_factors.c.owner == owner)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else SecondFactor.model_validate(dict(row))

    async def enrol_second_factor(self, factor: SecondFactor) -> None:
        """Store a new second factor; it replaces one that was never confirmed.

        Raises ``Conflict`` if there is a confirmed one, ``NotFound`` if there is no such user.
        """
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

    async def confirm_second_factor(
        self, owner: str, now: datetime, step: int, code_hashes: Collection[str]
    ) -> bool:
        """Confirm the second factor and store hashes of its recovery codes; from then on, logins
        require a code.

        ``step`` is the time step of the code that was entered, which cannot be used again. Returns
        False if there is no second factor to confirm.
        """
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

    async def use_time_step(self, owner: str, step: int) -> bool:
        """Mark the time step of a one-time code, and all earlier ones, as used; return False if it
        was used before.
        """
        unused = update(second_factors).where(
            second_factors.c.owner == owner, second_factors.c.last_step < step
        )
        async with self._db.write() as tx:
            return (await tx.execute(unused.values(last_step=step))).rowcount > 0

    async def replace_recovery_codes(self, owner: str, code_hashes: Collection[str]) -> None:
        """Replace all recovery codes of the owner."""
        async with self._db.write() as tx:
            await _replace_codes(tx, owner, code_hashes)

    async def use_recovery_code(self, owner: str, code_hash: str) -> bool:
        """Delete a recovery code because it was used; return False if the owner has no
        such code.
        """
        statement = delete(recovery_codes).where(
            recovery_codes.c.owner == owner, recovery_codes.c.code_hash == code_hash
        )
        async with self._db.write() as tx:
            return (await tx.execute(statement)).rowcount > 0

    async def count_recovery_codes(self, owner: str) -> int:
        """Count the recovery codes that are left."""
        query = select(func.count()).where(recovery_codes.c.owner == owner)
        async with self._db.read() as connection:
            count: int = (await connection.execute(query)).scalar_one()
        return count

    async def delete_second_factor(self, owner: str) -> bool:
        """Delete the second factor with its recovery codes. Return whether there was one."""
        async with self._db.write() as tx:
            await tx.execute(delete(recovery_codes).where(recovery_codes.c.owner == owner))
            result = await tx.execute(delete(second_factors).where(second_factors.c.owner == owner))
            if result.rowcount:
                append_security_event(tx, owner, {"change": "second_factor"})
        return result.rowcount > 0


async def _replace_codes(tx: Transaction, owner: str, code_hashes: Collection[str]) -> None:
    await tx.execute(delete(recovery_codes).where(recovery_codes.c.owner == owner))
    rows = [{"owner": owner, "code_hash": code_hash} for code_hash in code_hashes]
    if rows:
        await tx.execute(insert(recovery_codes), rows)
