"""Store of the logins of programs that wait for the confirmation of a user."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import case, delete, func, insert, select, update

from aitne.core.errors import RateLimited
from aitne.core.models.sign_in_records import DeviceLoginRequest
from aitne.store.sign_in_tables import device_logins as _logins
from aitne.store.store_part import StorePart

_COLUMNS = [_logins.c[name] for name in DeviceLoginRequest.model_fields]
_RETRY_S = 60.0


class DeviceLoginStore(StorePart):
    """Storage of the logins of programs."""

    async def add_device_login(
        self,
        request: DeviceLoginRequest,
        code_hash: str,
        network: str,
        *,
        max_requests: int,
        max_of_network: int,
    ) -> None:
        """Store the request of a program to log in, under the hash of its user code.

        Raises ``RateLimited`` if ``max_requests`` requests wait, or ``max_of_network`` from ``network``.
        """
        row = {**request.model_dump(), "code_hash": code_hash, "network": network}
        of_network = func.sum(case((_logins.c.network == network, 1), else_=0))
        async with self._db.write() as tx:
            await tx.execute(delete(_logins).where(_logins.c.expires_at <= request.created_at))
            count = select(func.count(), func.coalesce(of_network, 0)).select_from(_logins)
            waiting, waiting_here = list((await tx.execute(count)).one())
            if waiting >= max_requests or waiting_here >= max_of_network:
                raise RateLimited(
                    "Too many logins of programs wait for their confirmation. Confirm or refuse one "
                    "in the portal, or wait ten minutes.",
                    _RETRY_S,
                )
            await tx.execute(insert(_logins), row)

    async def mark_device_login_seen(
        self, code_hash: str, owner: str, now: datetime
    ) -> DeviceLoginRequest | None:
        """Return the request with this user code and record that the user ``owner`` sees it, if it is
        for the first time; None if there is none that can still be confirmed.
        """
        this = (_logins.c.code_hash == code_hash, _logins.c.expires_at > now)
        first = _logins.c.seen_by.is_distinct_from(owner)
        seen = update(_logins).where(*this, first).values(seen_by=owner, seen_at=now)
        async with self._db.write() as tx:
            await tx.execute(seen)
            row = (await tx.execute(select(*_COLUMNS).where(*this))).mappings().first()
        return None if row is None else DeviceLoginRequest.model_validate(dict(row))

    async def delete_device_login(self, code_hash: str) -> bool:
        """Delete a request, because it was answered. Return whether there was one."""
        async with self._db.write() as tx:
            result = await tx.execute(delete(_logins).where(_logins.c.code_hash == code_hash))
        return bool(result.rowcount)
