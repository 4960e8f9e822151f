"""Store of announcements, maintenance and the history of nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Table, and_, delete, func, or_, select
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import NotFound
from aitne.core.models.announcement import Announcement, Maintenance, NodeEvent
from aitne.store import node_state_history, paging
from aitne.store.admin_tables import announcements as _announcements
from aitne.store.admin_tables import dismissals as _dismissals
from aitne.store.admin_tables import maintenance as _maintenance
from aitne.store.admin_tables import node_history as _history
from aitne.store.database import Transaction
from aitne.store.nodes_and_leases import CLUSTER
from aitne.store.paging import Page
from aitne.store.portable_sql import insert_if_absent, upsert
from aitne.store.store_part import Check, StorePart

ANNOUNCED = "announcement.changed"
MAINTAINED = "maintenance.changed"


class AdministrationStore(StorePart):
    """Storage of announcements, the maintenance window and the history of nodes."""

    async def save_announcement(
        self, announcement: Announcement, *, check: Check[Announcement] = None
    ) -> None:
        """Replace the announcement with this ID. If there is none, add it; with a ``check``, raise
        ``NotFound`` instead.

        Users who dismissed it see it again if its text or severity changed. Adds the event
        ``announcement.changed``.
        """
        values = announcement.model_dump() | {"projects": list(announcement.projects)}
        async with self._db.write() as tx:
            before = await _lock_announcement(tx, announcement.id)
            if check is not None:
                if before is None:
                    raise NotFound("announcement", announcement.id)
                check(before)
            await tx.execute(upsert(tx.dialect, _announcements, values, ["id"]))
            news = before is not None and (
                (before.text, before.severity) != (announcement.text, announcement.severity)
            )
            if news:
                of_it = _dismissals.c.announcement == announcement.id
                await tx.execute(delete(_dismissals).where(of_it))
            tx.append_event(ANNOUNCED, {"id": announcement.id})

    async def delete_announcement(
        self, announcement_id: str, *, check: Check[Announcement] = None
    ) -> None:
        """Delete the announcement and add the event ``announcement.changed``.

        Raises ``NotFound`` if there is no such announcement.
        """
        async with self._db.write() as tx:
            before = await _lock_announcement(tx, announcement_id)
            if before is None:
                raise NotFound("announcement", announcement_id)
            if check is not None:
                check(before)
            await tx.execute(delete(_announcements).where(_announcements.c.id == announcement_id))
            tx.append_event(ANNOUNCED, {"id": announcement_id})

    async def get_announcement(self, announcement_id: str) -> Announcement:
        """Return the announcement with this ID. Raises ``NotFound``."""
        query = select(_announcements).where(_announcements.c.id == announcement_id)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            raise NotFound("announcement", announcement_id)
        return Announcement.model_validate(row)

    async def list_announcements(
        self, *, current_at: datetime | None, cursor: str | None = None, limit: int = 100
    ) -> Page[Announcement]:
        """List the announcements that are shown at ``current_at``, or all if it is None, sorted by
        start time, latest first.
        """
        table = _announcements
        conditions = []
        if current_at is not None:
            conditions = [
                table.c.starts_at <= current_at,
                or_(table.c.ends_at.is_(None), table.c.ends_at > current_at),
            ]
        count = select(func.count()).select_from(table).where(*conditions)
        page = select(table).where(*conditions).order_by(table.c.starts_at.desc(), table.c.id)
        if cursor is not None:
            start, last_id = _announcement_key(cursor)
            later = and_(table.c.starts_at == start, table.c.id > last_id)
            page = page.where(or_(table.c.starts_at < start, later))
        async with self._db.read() as connection:
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(page.limit(limit + 1))).mappings().all()
        items = tuple(Announcement.model_validate(row) for row in rows[:limit])
        next_cursor = None
        if len(rows) > limit:
            last = items[-1]
            next_cursor = paging.encode_cursor("announcements", last.starts_at.isoformat(), last.id)
        return Page(items=items, next_cursor=next_cursor, total=total)

    async def dismiss_announcement(self, announcement_id: str, user: str) -> None:
        """Store that the user has dismissed the announcement. Raises ``NotFound``."""
        values = {"announcement": announcement_id, "user_name": user}
        try:
            async with self._db.write() as tx:
                await tx.execute(insert_if_absent(tx.dialect, _dismissals).values(values))
        except IntegrityError as error:
            raise NotFound("announcement", announcement_id) from error

    async def list_dismissed_announcements(self, user: str) -> frozenset[str]:
        """Return the ids of the announcements that this user has dismissed."""
        query = select(_dismissals.c.announcement).where(_dismissals.c.user_name == user)
        async with self._db.read() as connection:
            return frozenset((await connection.execute(query)).scalars())

    async def set_maintenance(
        self, window: Maintenance | None, *, check: Check[Maintenance | None] = None
    ) -> None:
        """Replace the maintenance window; None deletes it.

        Adds the event ``maintenance.changed`` if there was or is one.
        """
        async with self._db.write() as tx:
            await tx.acquire_lock("maintenance")
            before = (await tx.execute(select(_maintenance))).mappings().first()
            if check is not None:
                check(None if before is None else Maintenance.model_validate(before))
            if window is None:
                if before is None:
                    return
                await tx.execute(delete(_maintenance).where(_maintenance.c.cluster == CLUSTER))
            else:
                values = {"cluster": CLUSTER, **window.model_dump()}
                await tx.execute(upsert(tx.dialect, _maintenance, values, ["cluster"]))
            tx.append_event(MAINTAINED, _event_data(window))

    async def find_maintenance(self) -> Maintenance | None:
        """Return the present, next or last maintenance window, in this order; None if there was
        none.
        """
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(select(_maintenance))).mappings().first()
        return None if row is None else Maintenance.model_validate(row)

    async def append_start_and_end_events(self, after: datetime, until: datetime) -> None:
        """Add the events ``announcement.changed`` and ``maintenance.changed`` for those that began
        or ended after ``after`` and not later than ``until``.

        No request causes these events, because they depend only on the time.
        """
        # Usually nothing starts or ends; then nothing is written.
        announced = select(_announcements.c.id).where(
            _make_start_or_end_condition(_announcements, after, until)
        )
        maintained = select(_maintenance).where(
            _make_start_or_end_condition(_maintenance, after, until)
        )
        async with self._db.read() as connection:
            turned = list((await connection.execute(announced)).scalars())
            window = (await connection.execute(maintained)).mappings().first()
        if not turned and window is None:
            return
        async with self._db.write() as tx:
            for announcement_id in turned:
                tx.append_event(ANNOUNCED, {"id": announcement_id})
            if window is not None:
                tx.append_event(MAINTAINED, _event_data(Maintenance.model_validate(window)))

    async def record_node_action(
        self, node: str, action: str, *, actor: str, reason: str | None
    ) -> None:
        """Add an administrator's action (``action``, such as ``drain``) to the history of
        the node.
        """
        async with self._db.write() as tx:
            row = {"node": node, "what": action, "reason": reason, "actor": actor}
            await node_state_history.insert_state_changes(
                tx, [{**row, "cluster": CLUSTER, "time": self._clock()}]
            )

    async def list_node_events(
        self, node: str, *, cursor: str | None = None, limit: int = 100
    ) -> Page[NodeEvent]:
        """List the events of the node, newest first."""
        condition = _history.c.node == node
        count = select(func.count()).select_from(_history).where(condition)
        page = select(_history).where(condition).order_by(_history.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            page = page.where(_history.c.id < paging.decode_id_cursor("node_history", cursor))
        async with self._db.read() as connection:
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(page)).mappings().all()
        items = tuple(map(_node_event, rows[:limit]))
        more = len(rows) > limit
        return Page(
            items=items,
            next_cursor=paging.encode_cursor("node_history", str(items[-1].id)) if more else None,
            total=total,
        )

    async def list_last_drains(self) -> dict[str, NodeEvent]:
        """Return the newest ``drain`` of each node that was drained through the platform."""
        newest = (
            select(func.max(_history.c.id))
            .where(_history.c.what == "drain")
            .group_by(_history.c.node)
        )
        query = select(_history).where(_history.c.id.in_(newest))
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return {row["node"]: _node_event(row) for row in rows}


def _node_event(row: RowMapping) -> NodeEvent:
    return NodeEvent.model_validate({**row, "event": row["what"]})


async def _lock_announcement(tx: Transaction, announcement_id: str) -> Announcement | None:
    """Read the announcement and lock it until the end of the transaction."""
    query = select(_announcements).where(_announcements.c.id == announcement_id).with_for_update()
    row = (await tx.execute(query)).mappings().first()
    return None if row is None else Announcement.model_validate(row)


def _event_data(window: Maintenance | None) -> dict[str, Any]:
    if window is None:
        return {"starts_at": None, "ends_at": None}
    return window.model_dump(mode="json", include={"starts_at", "ends_at"})


def _make_start_or_end_condition(table: Table, after: datetime, until: datetime) -> Any:
    return or_(
        *(and_(table.c[name] > after, table.c[name] <= until) for name in ("starts_at", "ends_at"))
    )


def _announcement_key(cursor: str) -> tuple[datetime, str]:
    time, announcement_id = paging.decode_cursor("announcements", cursor, 2)
    try:
        return paging.parse_time(time), announcement_id
    except ValueError as error:
        raise paging.make_foreign_cursor_error(cursor) from error
