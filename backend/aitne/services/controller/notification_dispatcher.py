"""Delivery of pending messages, outside any transaction. An outage of a server loses none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from aitne.core.errors import DeliveryFailed, NotFound
from aitne.core.models.notification import WEBHOOK, Delivery, DeliveryState
from aitne.core.ports.channel import Channel, ChannelRecipient
from aitne.services.controller.leader import Leader
from aitne.store import Store

log = logging.getLogger(__name__)

TEST = "test"
"""Kind of a test message that a user has requested; its delivery is attempted only once."""
MOST_AT_ONCE = 32
MAX_PER_USER = 2
"""Maximum number of concurrent deliveries of one user, so that a server that does not answer delays
no other users.
"""
LEASE_S = 120.0
FOLLOW_S = 5.0
PAUSE_S = 0.25
"""Seconds between two queries for due deliveries, because most changes create none."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 3_600.0
GIVEN_UP_IN_A_ROW = 5
"""Number of consecutive failed messages after which a webhook is disabled and its owner is
notified.
"""
KEEP = timedelta(days=90)
PRUNE_EVERY_S = 3_600.0


class NotificationDispatcher:
    """Worker that sends due deliveries over their channels, such as mail, while this controller is
    the leader.
    """

    def __init__(
        self,
        store: Store,
        leader: Leader,
        clock: Callable[[], datetime],
        channels: Mapping[str, Channel],
    ) -> None:
        self._store = store
        self._leader = leader
        self._clock = clock
        self._channels = channels

    async def run(self) -> None:
        """Send due deliveries until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prune_notifications())
            group.create_task(self.send_due_deliveries())

    async def send_due_deliveries(self, *, until_idle: bool = False) -> None:
        """Send due deliveries; with ``until_idle``, return once none is due."""
        in_hand: set[int] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                room = MOST_AT_ONCE - len(in_hand)
                items = room and await self._store.lease_deliveries(
                    epoch=self._leader.epoch,
                    limit=room,
                    lease_s=LEASE_S,
                    max_per_owner=MAX_PER_USER,
                )
                fresh = [delivery for delivery in items or () if delivery.id not in in_hand]
                for delivery in fresh:
                    in_hand.add(delivery.id)
                    group.create_task(self._deliver(delivery, in_hand))
                if fresh:
                    continue
                if until_idle and not in_hand:
                    return
                if not until_idle:
                    await asyncio.sleep(PAUSE_S)
                await self._store.wait_for_change(0.02 if until_idle else FOLLOW_S)

    async def _deliver(self, delivery: Delivery, in_hand: set[int]) -> None:
        try:
            status = await self._send(delivery)
        except DeliveryFailed as error:
            await self._handle_failure(delivery, error)
        else:
            await self._store.finish_delivery(
                delivery, DeliveryState.SENT, epoch=self._leader.epoch, status=status
            )
        in_hand.discard(delivery.id)

    async def _send(self, delivery: Delivery) -> int:
        channel = self._channels.get(delivery.channel)
        if channel is None or not channel.is_available:
            raise DeliveryFailed(f"This site has no {delivery.channel} any more.", again=False)
        person = await self._get_recipient(delivery)
        try:
            async with asyncio.timeout(LEASE_S / 2):
                return await channel.send(delivery.message, person, delivery.target)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"There was no answer within {LEASE_S / 2:.0f} s.", again=True
            ) from error
        except DeliveryFailed:
            raise
        except Exception as error:
            # A channel is a plug-in: its errors must not end the controller.
            log.exception("The channel %s failed.", delivery.channel)
            raise DeliveryFailed(
                f"The channel {delivery.channel} failed: {type(error).__name__}.", again=True
            ) from error

    async def _get_recipient(self, delivery: Delivery) -> ChannelRecipient:
        """Return the current mail address and webhook of the delivery's recipient, which may have
        changed since the delivery was created.

        Raises ``DeliveryFailed`` if the recipient no longer exists.
        """
        try:
            user = await self._store.get_user(delivery.owner)
            hook = await self._store.get_webhook(delivery.target) if delivery.target else None
        except NotFound as error:
            raise DeliveryFailed("The recipient no longer exists.", again=False) from error
        tested = delivery.message.get("kind") == TEST
        usable = hook is not None and hook.owner == user.name and (tested or not hook.disabled_at)
        return ChannelRecipient(
            name=user.name, mail=user.mail, webhooks=(hook,) if usable and hook is not None else ()
        )

    async def _handle_failure(self, delivery: Delivery, error: DeliveryFailed) -> None:
        channel = self._channels.get(delivery.channel)
        patience = timedelta(seconds=0.0 if channel is None else channel.retry_period_s)
        again = error.again and delivery.message.get("kind") != TEST
        if again and self._clock() < delivery.created_at + patience:
            state = DeliveryState.WAITING
        else:
            state = DeliveryState.FAILED
            log.info("A message to %s is given up: %s", delivery.owner, error.message)
        delay_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(delivery.tries - 1, 20))
        counts = delivery.channel == WEBHOOK and delivery.message.get("kind") != TEST
        await self._store.finish_delivery(
            delivery,
            state,
            epoch=self._leader.epoch,
            status=error.status,
            error=error.message,
            delay_s=delay_s,
            disable_after=GIVEN_UP_IN_A_ROW if counts else None,
        )

    async def _prune_notifications(self) -> None:
        while True:
            await self._store.prune_notifications(self._clock() - KEEP)
            await asyncio.sleep(PRUNE_EVERY_S)
