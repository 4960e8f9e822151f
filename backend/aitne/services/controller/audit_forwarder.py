"""Forwards the audit log to a receiver outside of the platform, each entry at least once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from aitne.core.errors import Conflict, DeliveryFailed
from aitne.core.models.audit import AuditFilter
from aitne.services.controller.leader import Leader
from aitne.store import Store

log = logging.getLogger(__name__)

CURSOR = "audit_syslog"
EVERY_S = 2.0
RETRY_S = 30.0
_BATCH = 200


class LineReceiver(Protocol):
    """Interface of a receiver of text lines, such as a syslog server."""

    def send(self, lines: Iterable[str]) -> None:
        """Send the lines and block until they are sent. Raises ``DeliveryFailed``."""
        ...


class AuditForwarder:
    """Task that forwards the entries of the audit log in order to a receiver outside of the
    platform.

    The number of the last forwarded entry is in the database, so a restart loses no entry.
    """

    def __init__(self, store: Store, leader: Leader, receiver: LineReceiver) -> None:
        self._store = store
        self._leader = leader
        self._receiver = receiver

    async def run(self) -> None:
        """Forward entries until cancelled. Raises ``StaleEpoch`` if another controller is the
        leader.
        """
        failing = False
        while True:
            try:
                more = await self.forward_batch()
            except DeliveryFailed as error:
                if not failing:
                    log.warning("%s The entries wait in the database.", error.message)
                failing = True
                await asyncio.sleep(RETRY_S)
                continue
            except Conflict as error:  # another controller has forwarded them meanwhile
                log.warning("%s", error.message)
                more = True
            failing = False
            if not more:
                await asyncio.sleep(EVERY_S)

    async def forward_batch(self) -> bool:
        """Forward one batch; return whether there may be more.

        Raises:
            DeliveryFailed: the receiver cannot be reached.
            StaleEpoch, Conflict: another controller leads.
        """
        since = await self._store.get_event_cursor(CURSOR)
        entries = await self._store.list_audit_entries_after(since, AuditFilter(), limit=_BATCH)
        if not entries:
            return False
        lines = [entry.to_line() for entry in entries]
        await asyncio.to_thread(self._receiver.send, lines)
        until = entries[-1].id
        await self._store.add_notifications(
            (), cursor=CURSOR, since=since, until=until, epoch=self._leader.epoch
        )
        return len(entries) == _BATCH
