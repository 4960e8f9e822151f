"""Store of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, insert, or_, select
from typing_extensions import override

from aitne.adapters.store import paging
from aitne.adapters.store.audit_tables import audit as _audit
from aitne.adapters.store.base import StorePart
from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter
from aitne.core.models.preferences import MODELS
from aitne.core.ports.store import AuditStore, Page


class AuditTrail(StorePart, AuditStore):
    """Implementation of ``AuditStore`` in SQL."""

    @override
    async def append_audit(self, draft: AuditDraft) -> AuditEntry:
        last = select(_audit.c.id, _audit.c.hash).order_by(_audit.c.id.desc()).limit(1)
        async with self._db.write() as tx:
            await tx.take("audit")
            row = (await tx.execute(last)).first()
            entry = AuditEntry.after(row.id if row else 0, row.hash if row else None, draft)
            await tx.execute(insert(_audit), entry.model_dump())
        return entry

    @override
    async def list_audit(
        self, where: AuditFilter, *, cursor: str | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        conditions = _conditions(where)
        count = select(func.count()).select_from(_audit).where(*conditions)
        page = select(_audit).where(*conditions).order_by(_audit.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            page = page.where(_audit.c.id < paging.after_id("audit", cursor))
        async with self._db.read() as connection:
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(page)).mappings().all()
        items = tuple(AuditEntry.model_validate(row) for row in rows[:limit])
        more = len(rows) > limit
        return Page(
            items=items,
            next_cursor=paging.encode("audit", str(items[-1].id)) if more else None,
            total=total,
        )

    @override
    async def audit_after(
        self, entry_id: int, where: AuditFilter, *, limit: int = 1_000
    ) -> Sequence[AuditEntry]:
        query = (
            select(_audit)
            .where(_audit.c.id > entry_id, *_conditions(where))
            .order_by(_audit.c.id)
            .limit(limit)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [AuditEntry.model_validate(row) for row in rows]


def _conditions(audit_filter: AuditFilter) -> list[ColumnElement[bool]]:
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
