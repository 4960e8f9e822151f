"""Store of users' notifications, and of the settings which events users are notified of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.notification import (
    DeliveryState,
    NewDelivery,
    NewNotification,
    Notification,
    NotificationChoices,
    NotificationKind,
    Recipient,
)
from aitne.core.models.user import Role
from aitne.local_system.state_file_reader import parse_state_document
from aitne.store import notification_and_activity_tables, paging
from aitne.store.database import Transaction
from aitne.store.paging import Page
from aitne.store.portable_sql import insert_if_absent, upsert
from aitne.store.store_part import MOST_IDS, Check, StorePart, require_epoch, split_into_batches
from aitne.store.tables import members, users

_notifications = notification_and_activity_tables.notifications
_settings = notification_and_activity_tables.notification_settings
_cursors = notification_and_activity_tables.cursors
_deliveries = notification_and_activity_tables.deliveries
_AT_ONCE = 200
"""Maximum number of rows in one INSERT, since both databases limit a statement to some thousand
values.
"""


class NotificationStore(StorePart):
    """Storage of notifications, and of users' notification settings."""

    async def get_event_cursor(self, name: str) -> int:
        """Return the ID of the last event that the reader ``name`` has processed; 0 if it has
        processed none.
        """
        query = select(_cursors.c.event_id).where(_cursors.c.name == name)
        async with self._db.read(brief=True) as connection:
            return (await connection.execute(query)).scalar() or 0

    async def add_notifications(
        self,
        notifications: Sequence[NewNotification],
        *,
        cursor: str,
        since: int,
        until: int,
        epoch: int,
    ) -> int:
        """Store new notifications with their deliveries and move the reader's position (``cursor``
        is its name) from event ``since`` to ``until``, in one transaction, so that each event is
        processed once.

        Returns the number of notifications stored; those for users who no longer exist are omitted.
        Each one adds the event ``notification.added``. Raises ``StaleEpoch``, and ``Conflict`` if
        the position is not ``since``.
        """
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            await _move_cursor(tx, cursor, since, until)
            there = await _find_existing_users(tx, {message.owner for message in notifications})
            messages = [message for message in notifications if message.owner in there]
            now = self._clock()
            added = 0
            for some in split_into_batches(
                [message for message in messages if message.inbox], _AT_ONCE
            ):
                added += await _insert_notifications(tx, some, now)
            new = [delivery for message in messages for delivery in message.deliveries]
            if new:
                await tx.execute(insert(_deliveries), [delivery_row(one, now) for one in new])
        return added

    async def list_notifications(
        self, owner: str, *, unread_only: bool = False, cursor: str | None = None, limit: int = 50
    ) -> Page[Notification]:
        """List the owner's notifications, newest first; ``total`` counts all that match."""
        conditions: list[ColumnElement[bool]] = [_notifications.c.owner == owner]
        if unread_only:
            conditions.append(_notifications.c.read_at.is_(None))
        query = select(_notifications).where(*conditions).order_by(_notifications.c.id.desc())
        if cursor is not None:
            query = query.where(
                _notifications.c.id < paging.decode_id_cursor("notifications", cursor)
            )
        async with self._db.read() as connection:
            count = select(func.count()).select_from(_notifications).where(*conditions)
            total: int = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(query.limit(limit + 1))).mappings().all()
        items = tuple(Notification.model_validate(dict(row)) for row in rows[:limit])
        more = len(rows) > limit
        further = paging.encode_cursor("notifications", str(items[-1].id)) if more else None
        return Page(items=items, next_cursor=further, total=total)

    async def count_unread_notifications(self, owner: str) -> int:
        """Count the notifications that the owner has not read."""
        async with self._db.read() as connection:
            count: int = (await connection.execute(_select_unread_count(owner))).scalar_one()
        return count

    async def mark_notifications_read(
        self, owner: str, ids: Sequence[int] | None, now: datetime
    ) -> int:
        """Mark the owner's notifications with these IDs as read (None: all); return the number that
        remain unread.

        Adds the event ``notification.read`` if anything changed, so that the owner's other browser
        pages are updated.
        """
        async with self._db.write() as tx:
            query = update(_notifications).where(
                _notifications.c.owner == owner, _notifications.c.read_at.is_(None)
            )
            if ids is not None:
                query = query.where(_notifications.c.id.in_(ids))
            changed = (await tx.execute(query.values(read_at=now))).rowcount
            unread_count: int = (await tx.execute(_select_unread_count(owner))).scalar_one()
            if changed:
                tx.append_event("notification.read", {"unread": unread_count}, owner=owner)
        return unread_count

    async def get_notification_choices(self, owner: str) -> NotificationChoices:
        """Return the user's choices of channels; empty if the user has made none."""
        return (await self.list_notification_choices([owner])).get(owner, NotificationChoices())

    async def list_notification_choices(
        self, owners: Sequence[str]
    ) -> Mapping[str, NotificationChoices]:
        """Return the choices of channels of these users; users without choices are missing."""
        choices: dict[str, NotificationChoices] = {}
        async with self._db.read() as connection:
            for some in split_into_batches(owners, MOST_IDS):
                query = select(_settings).where(_settings.c.user_name.in_(some))
                for row in await connection.execute(query):
                    choices[row.user_name] = parse_state_document(NotificationChoices, row.data)
        return choices

    async def save_notification_choices(
        self,
        owner: str,
        choices: NotificationChoices,
        *,
        mail: str | None = None,
        check: Check[tuple[str | None, NotificationChoices]] = None,
    ) -> None:
        """Replace the user's choices of channels and, unless ``mail`` is None, the mail address;
        ``""`` removes the address.

        ``check`` receives the stored address and choices. Raises ``NotFound`` if there is no such
        user.
        """
        row = {"user_name": owner, "data": choices.model_dump(mode="json")}
        condition = users.c.name == owner
        chosen = select(_settings.c.data).where(_settings.c.user_name == owner)
        async with self._db.write() as tx:
            user = (
                await tx.execute(select(users.c.mail).where(condition).with_for_update())
            ).first()
            if user is None:
                raise NotFound("user", owner)
            if check is not None:
                data = (await tx.execute(chosen)).scalar()
                check((user.mail, parse_state_document(NotificationChoices, data or {})))
            if mail is not None:
                await tx.execute(update(users).where(condition).values(mail=mail or None))
            await tx.execute(upsert(tx.dialect, _settings, row, ["user_name"]))

    async def list_recipients(self, names: Sequence[str] | None = None) -> Sequence[Recipient]:
        """Return all enabled users; with ``names``, only the enabled users that have one of these
        names.
        """
        columns = (users.c.name, users.c.mail, users.c.role)
        query = select(*columns).where(users.c.disabled.is_(False)).order_by(users.c.name)
        some = [None] if names is None else [*split_into_batches(sorted(set(names)), MOST_IDS)]
        recipients: list[Recipient] = []
        async with self._db.read() as connection:
            for part in some:
                statement = query if part is None else query.where(users.c.name.in_(part))
                recipients += [
                    Recipient(name=row.name, mail=row.mail, admin=row.role == Role.ADMIN)
                    for row in await connection.execute(statement)
                ]
        return recipients

    async def find_last_notified_at(self, kind: NotificationKind, path: str) -> datetime | None:
        """Return the time at which the last notification of this kind with the link ``path`` was
        created; None if there was none.
        """
        query = select(func.max(_notifications.c.created_at)).where(
            _notifications.c.kind == kind, _notifications.c.path == path
        )
        async with self._db.read() as connection:
            created_at: datetime | None = (await connection.execute(query)).scalar()
        return created_at

    async def mark_path_notifications_read(self, kind: NotificationKind, path: str) -> None:
        """Mark all users' notifications of this kind with the link ``path`` as read, and add the
        event ``notification.read`` for each of them.
        """
        told = (
            _notifications.c.kind == kind,
            _notifications.c.path == path,
            _notifications.c.read_at.is_(None),
        )
        statement = update(_notifications).where(*told).values(read_at=self._clock())
        async with self._db.write() as tx:
            owners = (await tx.execute(statement.returning(_notifications.c.owner))).scalars()
            for owner in sorted(set(owners)):
                unread: int = (await tx.execute(_select_unread_count(owner))).scalar_one()
                tx.append_event("notification.read", {"unread": unread}, owner=owner)

    async def list_project_members(self, project: str) -> Sequence[str]:
        """Return the names of a project's members."""
        query = select(members.c.user_name).where(members.c.project == project)
        async with self._db.read() as connection:
            return list((await connection.execute(query.order_by(members.c.user_name))).scalars())

    async def prune_notifications(self, before: datetime) -> None:
        """Delete the notifications and the finished deliveries that were created before
        ``before``.
        """
        over = _deliveries.c.state != DeliveryState.WAITING
        async with self._db.write() as tx:
            await tx.execute(delete(_notifications).where(_notifications.c.created_at < before))
            await tx.execute(delete(_deliveries).where(over, _deliveries.c.created_at < before))


def delivery_row(new: NewDelivery, now: datetime) -> dict[str, Any]:
    """Return the columns of the row of a new delivery."""
    return {
        **new.model_dump(mode="json"),
        "state": DeliveryState.WAITING,
        "tries": 0,
        "created_at": now,
        "available_at": now,
    }


def _select_unread_count(owner: str) -> Any:
    query = select(func.count()).select_from(_notifications)
    return query.where(_notifications.c.owner == owner, _notifications.c.read_at.is_(None))


async def _move_cursor(tx: Transaction, name: str, since: int, until: int) -> None:
    here = (_cursors.c.name == name, _cursors.c.event_id == since)
    moved = (await tx.execute(update(_cursors).where(*here).values(event_id=until))).rowcount
    if not moved and since == 0:
        first = insert_if_absent(tx.dialect, _cursors).values(name=name, event_id=until)
        moved = (await tx.execute(first)).rowcount
    if not moved:
        raise Conflict(
            f"The reader {name} is no longer at event {since}: another process was faster."
        )


async def _find_existing_users(tx: Transaction, owners: set[str]) -> set[str]:
    names: set[str] = set()
    for some in split_into_batches(sorted(owners), MOST_IDS):
        query = select(users.c.name).where(users.c.name.in_(some))
        names.update((await tx.execute(query)).scalars())
    return names


async def _insert_notifications(
    tx: Transaction, messages: Sequence[NewNotification], now: datetime
) -> int:
    """Insert notifications, except those that exist already for the same event and user; return the
    number of inserted ones.
    """
    rows = [
        {
            "owner": message.owner,
            "event_id": message.event_id,
            **message.notice.model_dump(exclude={"log"}),
            "created_at": now,
        }
        for message in messages
    ]
    statement = (
        insert_if_absent(tx.dialect, _notifications)
        .values(rows)
        .returning(_notifications.c.id, _notifications.c.owner, _notifications.c.event_id)
    )
    by_key = {(message.owner, message.event_id): message for message in messages}
    added = (await tx.execute(statement)).all()
    for row in sorted(added, key=lambda row: row.id):
        message = by_key[row.owner, row.event_id]
        data = message.notice.model_dump(mode="json", exclude={"log"})
        tx.append_event(
            "notification.added", {"id": row.id, "popup": message.popup, **data}, owner=row.owner
        )
    return len(added)
