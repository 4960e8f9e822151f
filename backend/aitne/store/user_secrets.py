"""Store of users' secrets: their names and encrypted values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.user_secret import UserSecret
from aitne.store.store_part import StorePart
from aitne.store.user_secret_tables import user_secrets

_COLUMNS = [user_secrets.c[name] for name in UserSecret.model_fields]


class UserSecretStore(StorePart):
    """Storage of users' secrets: for each owner, names with encrypted values."""

    async def save_user_secret(
        self, owner: str, name: str, encrypted: str, now: datetime, *, max_secrets: int
    ) -> UserSecret:
        """Store a secret, or replace its value.

        Raises ``NotFound`` if there is no such user, and ``Conflict`` if the owner already has
        ``max_secrets`` other secrets.
        """
        this = (user_secrets.c.owner == owner, user_secrets.c.name == name)
        values = {"encrypted": encrypted, "updated_at": now}
        count = select(func.count()).where(user_secrets.c.owner == owner)
        row = {"owner": owner, "name": name, "created_at": now, **values}
        try:
            async with self._db.write() as tx:
                await tx.acquire_lock(f"secrets of {owner}")
                replaced = await tx.execute(update(user_secrets).where(*this).values(**values))
                if not replaced.rowcount:
                    if ((await tx.execute(count)).scalar() or 0) >= max_secrets:
                        raise Conflict(
                            f"You already have {max_secrets} secrets. Delete one that you no longer use."
                        )
                    await tx.execute(insert(user_secrets).values(**row))
                record = (await tx.execute(select(*_COLUMNS).where(*this))).mappings().one()
        except IntegrityError as error:
            raise NotFound("user", owner) from error
        return UserSecret.model_validate(dict(record))

    async def list_user_secrets(self, owner: str) -> Sequence[UserSecret]:
        """Return the owner's secrets, sorted by name."""
        query = select(*_COLUMNS).where(user_secrets.c.owner == owner).order_by(user_secrets.c.name)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [UserSecret.model_validate(dict(row)) for row in rows]

    async def list_encrypted_user_secrets(
        self, owner: str, names: Collection[str]
    ) -> Mapping[str, str]:
        """Return the encrypted values of the owner's secrets among ``names``, by name."""
        query = select(user_secrets.c.name, user_secrets.c.encrypted).where(
            user_secrets.c.owner == owner, user_secrets.c.name.in_(names)
        )
        async with self._db.read() as connection:
            return {row.name: row.encrypted for row in await connection.execute(query)}

    async def delete_user_secret(self, owner: str, name: str) -> None:
        """Delete a secret. Raises ``NotFound``."""
        this = (user_secrets.c.owner == owner, user_secrets.c.name == name)
        async with self._db.write() as tx:
            if not (await tx.execute(delete(user_secrets).where(*this))).rowcount:
                raise NotFound("secret", name)
