"""Store of webhooks, and of the deliveries of notifications on all channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.notification import WEBHOOK, Delivery, DeliveryState, NewDelivery, Webhook
from aitne.store import notification_and_activity_tables
from aitne.store.database import Transaction
from aitne.store.notifications import delivery_row
from aitne.store.store_part import (
    MOST_IDS,
    Check,
    DueItems,
    StorePart,
    lease_due_rows,
    require_epoch,
    split_into_batches,
)

_webhooks = notification_and_activity_tables.webhooks
_deliveries = notification_and_activity_tables.deliveries
_FIELDS = [_deliveries.c[name] for name in Delivery.model_fields]


@dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """Number of deliveries of one channel in one state, and the time of the oldest."""

    channel: str
    state: DeliveryState
    count: int
    oldest: datetime


@cache
def _make_due_deliveries(max_per_owner: int | None) -> DueItems:
    return DueItems.for_table(
        _deliveries, _deliveries.c.state == DeliveryState.WAITING, max_per_owner
    )


class DeliveryStore(StorePart):
    """Storage of webhooks, and of deliveries of notifications."""

    async def create_webhook(self, webhook: Webhook, *, max_webhooks: int) -> None:
        """Store the webhook. Raises ``Conflict`` if the owner has ``max_webhooks`` webhooks already,
        ``NotFound`` if there is no such owner."""
        try:
            async with self._db.write() as tx:
                await tx.acquire_lock(f"webhooks of {webhook.owner}")
                query = select(func.count()).select_from(_webhooks)
                count = query.where(_webhooks.c.owner == webhook.owner)
                if (await tx.execute(count)).scalar_one() >= max_webhooks:
                    raise Conflict(
                        f"You have {max_webhooks} webhooks, which is the maximum. Remove one."
                    )
                await tx.execute(insert(_webhooks), webhook.model_dump())
        except IntegrityError as error:
            raise NotFound("user", webhook.owner) from error

    async def list_webhooks(self, owner: str) -> Sequence[Webhook]:
        """List the owner's webhooks, oldest first."""
        query = select(_webhooks).where(_webhooks.c.owner == owner)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_webhooks.c.created_at, _webhooks.c.id))
            return [Webhook.model_validate(dict(row)) for row in rows.mappings()]

    async def list_enabled_webhooks(self, owners: Sequence[str]) -> Sequence[Webhook]:
        """Return the webhooks of these owners that are not disabled."""
        webhooks: list[Webhook] = []
        async with self._db.read() as connection:
            for some in split_into_batches(owners, MOST_IDS):
                query = select(_webhooks).where(
                    _webhooks.c.owner.in_(some), _webhooks.c.disabled_at.is_(None)
                )
                rows = await connection.execute(query.order_by(_webhooks.c.id))
                webhooks += [Webhook.model_validate(dict(row)) for row in rows.mappings()]
        return webhooks

    async def get_webhook(self, webhook_id: str) -> Webhook:
        """Return the webhook with this ID. Raises ``NotFound``."""
        query = select(_webhooks).where(_webhooks.c.id == webhook_id)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            raise NotFound("webhook", webhook_id)
        return Webhook.model_validate(dict(row))

    async def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        rotate: bool = False,
        enable: bool = False,
        disable: tuple[datetime, str] | None = None,
        check: Check[Webhook] = None,
    ) -> Webhook:
        """Change the URL of the webhook, replace its secret (``rotate``), enable it, or disable it
        at a time with a reason.

        Enabling resets the count of failed deliveries. Raises ``NotFound``.
        """
        values: dict[str, Any] = {}
        if url is not None:
            values["url"] = url
        if rotate:
            values["generation"] = _webhooks.c.generation + 1
        if enable:
            values |= {"failures": 0, "disabled_at": None, "disabled_why": None}
        if disable is not None:
            values |= {"disabled_at": disable[0], "disabled_why": disable[1]}
        this = _webhooks.c.id == webhook_id
        query = select(_webhooks).where(this)
        async with self._db.write() as tx:
            if check is not None:
                check(await _read_webhook(tx, query.with_for_update(), webhook_id))
            if values:
                await tx.execute(update(_webhooks).where(this).values(values))
            return await _read_webhook(tx, query, webhook_id)

    async def delete_webhook(self, webhook_id: str) -> None:
        """Delete the webhook with its pending deliveries and its history of deliveries. Raises
        ``NotFound``.
        """
        async with self._db.write() as tx:
            result = await tx.execute(delete(_webhooks).where(_webhooks.c.id == webhook_id))
            if not result.rowcount:
                raise NotFound("webhook", webhook_id)
            condition = (_deliveries.c.channel == WEBHOOK, _deliveries.c.target == webhook_id)
            await tx.execute(delete(_deliveries).where(*condition))

    async def add_delivery(self, new: NewDelivery) -> Delivery:
        """Store a delivery that belongs to no notification: a test message.

        Raises ``NotFound`` if there is no such user.
        """
        statement = insert(_deliveries).values(delivery_row(new, self._clock()))
        try:
            async with self._db.write() as tx:
                row = (await tx.execute(statement.returning(*_FIELDS))).mappings().one()
        except IntegrityError as error:
            raise NotFound("user", new.owner) from error
        return Delivery.model_validate(dict(row))

    async def list_deliveries(
        self, *, owner: str, channel: str, target: str, limit: int
    ) -> Sequence[Delivery]:
        """List the deliveries to one destination (``target``), newest first."""
        query = (
            select(*_FIELDS)
            .where(
                _deliveries.c.owner == owner,
                _deliveries.c.channel == channel,
                _deliveries.c.target == target,
            )
            .order_by(_deliveries.c.id.desc())
            .limit(limit)
        )
        async with self._db.read() as connection:
            rows = await connection.execute(query)
            return [Delivery.model_validate(dict(row)) for row in rows.mappings()]

    async def count_undelivered(self) -> Sequence[DeliveryBacklog]:
        """Return the deliveries that wait or have failed, counted by channel and state."""
        # Few rows of the index: most deliveries have been sent.
        left = (DeliveryState.WAITING, DeliveryState.FAILED)
        columns = _deliveries.c
        query = (
            select(
                columns.channel,
                columns.state,
                func.count().label("number"),
                func.min(columns.created_at).label("oldest"),
            )
            .where(columns.state.in_(left))
            .group_by(columns.channel, columns.state)
        )
        async with self._db.read() as connection:
            rows = await connection.execute(query)
            return [
                DeliveryBacklog(row.channel, DeliveryState(row.state), row.number, row.oldest)
                for row in rows
            ]

    async def lease_deliveries(
        self, *, epoch: int, limit: int, lease_s: float, max_per_owner: int | None = None
    ) -> Sequence[Delivery]:
        """Reserve up to ``limit`` due deliveries for the controller of this ``epoch``, and return
        them.

        The recipients take turns; ``max_per_owner`` is the maximum number of reserved deliveries of
        one user (None: no maximum). A reservation ends after ``lease_s`` seconds, or when another
        controller becomes the leader. Raises ``StaleEpoch`` if another controller is the leader.
        """
        now = self._clock()
        rows = await lease_due_rows(
            self._db,
            _make_due_deliveries(max_per_owner),
            now=now,
            epoch=epoch,
            limit=limit,
            until=now + timedelta(seconds=lease_s),
        )
        return [Delivery.model_validate(dict(row)) for row in rows]

    async def finish_delivery(
        self,
        delivery: Delivery,
        state: DeliveryState,
        *,
        epoch: int,
        status: int | None = None,
        error: str | None = None,
        delay_s: float = 0.0,
        disable_after: int | None = None,
    ) -> bool:
        """Store the outcome of one attempt to deliver; with the state WAITING the delivery is due
        again after ``delay_s`` seconds.

        After ``disable_after`` failed deliveries in a row the webhook is disabled, with the event
        ``webhook.disabled``; None: this delivery does not count. Returns True if this call disabled
        the webhook. Raises ``StaleEpoch`` if another controller is the leader.
        """
        now = self._clock()
        over = state is not DeliveryState.WAITING
        values = {
            "state": state,
            "status": status,
            "error": error,
            "leased_in": None,
            "available_at": now + timedelta(seconds=delay_s),
            "finished_at": now if over else None,
        }
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            this = update(_deliveries).where(_deliveries.c.id == delivery.id)
            await tx.execute(this.values(values))
            if delivery.channel != WEBHOOK or not over:
                return False
            if state is DeliveryState.SENT:
                statement = update(_webhooks).where(_webhooks.c.id == delivery.target)
                await tx.execute(statement.values(failures=0))
                return False
            if disable_after is None:
                return False
            return await self._count_failure(tx, delivery, error or "", disable_after)

    async def _count_failure(
        self, tx: Transaction, delivery: Delivery, error: str, disable_after: int
    ) -> bool:
        counted = (
            update(_webhooks)
            .where(_webhooks.c.id == delivery.target, _webhooks.c.disabled_at.is_(None))
            .values(failures=_webhooks.c.failures + 1)
            .returning(_webhooks.c.failures, _webhooks.c.url)
        )
        row = (await tx.execute(counted)).first()
        if row is None or row.failures < disable_after:
            return False
        statement = update(_webhooks).where(_webhooks.c.id == delivery.target)
        await tx.execute(statement.values(disabled_at=self._clock(), disabled_why=error))
        data = {"webhook": delivery.target, "url": row.url, "error": error}
        tx.append_event("webhook.disabled", data, owner=delivery.owner)
        return True


async def _read_webhook(tx: Transaction, query: Select[Any], webhook_id: str) -> Webhook:
    row = (await tx.execute(query)).mappings().first()
    if row is None:
        raise NotFound("webhook", webhook_id)
    return Webhook.model_validate(dict(row))
