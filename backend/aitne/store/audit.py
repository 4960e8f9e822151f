"""Store of the audit log, whose entries contain the hash of the previous entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, insert, or_, select
from sqlalchemy.exc import IntegrityError

from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter
from aitne.core.models.preferences import MODELS
from aitne.store import paging
from aitne.store.audit_tables import audit as _audit
from aitne.store.paging import Page
from aitne.store.store_part import StorePart

_ADD = insert(_audit)
_LAST = select(_audit.c.id, _audit.c.hash).order_by(_audit.c.id.desc()).limit(1)


class AuditStore(StorePart):
    """Storage of the audit log: a chain of entries. The database itself prevents their
    modification.
    """

    _newest: AuditEntry | None = None
    """Last entry that this object has stored; another process may have appended newer ones to the
    database. None: unknown.
    """

    async def append_audit_entry(self, draft: AuditDraft) -> AuditEntry:
        """Append an entry to the chain and return it; concurrent calls, also of other processes,
        are executed one after the other.
        """
        if self._db.address.path is not None and self._newest is not None:
            try:
                return await self._append_chained_entry(draft, known=True)
            except IntegrityError:
                self._newest = None  # another process has appended the entry with this ID
        return await self._append_chained_entry(draft, known=False)

    async def _append_chained_entry(self, draft: AuditDraft, *, known: bool) -> AuditEntry:
        """Append an entry to the audit log, with a hash that depends on the previous entry. The
        previous entry is the last one that this object has stored if ``known`` is True, otherwise
        the newest in the database.

        Raises ``IntegrityError`` with ``known`` if another process has appended an entry since.
        """
        async with self._db.write(brief=True) as tx:
            await tx.acquire_lock("audit")
            newest = self._newest if known else (await tx.execute(_LAST)).first()
            number, digest = (newest.id, newest.hash) if newest is not None else (0, None)
            entry = AuditEntry.from_draft(number, digest, draft)
            await tx.execute_without_result(_ADD, [entry.model_dump()])
            self._newest = entry  # before others have their turn; wrong only if the commit fails
        return entry

    async def list_audit_entries(
        self, where: AuditFilter, *, cursor: str | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        """Return a page of the entries that match ``where``, newest first.

        Raises ``InvalidInput`` for an invalid cursor.
        """
        conditions = _make_conditions(where)
        count = select(func.count()).select_from(_audit).where(*conditions)
        page = select(_audit).where(*conditions).order_by(_audit.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            page = page.where(_audit.c.id < paging.decode_id_cursor("audit", cursor))
        async with self._db.read() as connection:
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(page)).mappings().all()
        items = tuple(AuditEntry.model_validate(row) for row in rows[:limit])
        more = len(rows) > limit
        return Page(
            items=items,
            next_cursor=paging.encode_cursor("audit", str(items[-1].id)) if more else None,
            total=total,
        )

    async def list_audit_entries_after(
        self, entry_id: int, where: AuditFilter, *, limit: int = 1_000
    ) -> Sequence[AuditEntry]:
        """List the entries that match ``where`` and have a higher number than ``entry_id``, oldest
        first.
        """
        query = (
            select(_audit)
            .where(_audit.c.id > entry_id, *_make_conditions(where))
            .order_by(_audit.c.id)
            .limit(limit)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [AuditEntry.model_validate(row) for row in rows]


def _make_conditions(audit_filter: AuditFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if audit_filter.actor is not None:
        conditions.append(
            or_(_audit.c.actor == audit_filter.actor, _audit.c.impersonator == audit_filter.actor)
        )
    if audit_filter.object is not None:
        # SQLite's LIKE ignores case, so it would match more than PostgreSQL's.
        above = f"{audit_filter.object}/"
        below = func.substr(_audit.c.object, 1, len(above)) == above
        conditions.append(or_(_audit.c.object == audit_filter.object, below))
    for name in ("action", "outcome"):
        value: Any = getattr(audit_filter, name)
        if value is not None:
            conditions.append(_audit.c[name] == value)
    if not audit_filter.preferences:
        # The operations that ``api.routers.preferences`` makes of the keys.
        names = [f"put_{key}_preferences" for key in MODELS]
        conditions.append(_audit.c.action.not_in(names))
    if audit_filter.since is not None:
        conditions.append(_audit.c.time >= audit_filter.since)
    if audit_filter.until is not None:
        conditions.append(_audit.c.time < audit_filter.until)
    return conditions
