"""A webhook without answers delays the messages of its owner only."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from aitne.core.models.notification import DeliveryState, NewDelivery, Webhook
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.services.controller.leader import Leader
from aitne.services.controller.notification_dispatcher import (
    MAX_PER_USER,
    MOST_AT_ONCE,
    NotificationDispatcher,
)
from aitne.store import Store
from tests.integration.channels.test_webhook import LOOPBACK, Receiver, channel
from tests.support.database import migrated

__all__ = ["migrated"]


async def test_a_receiver_that_hangs_holds_up_nobody_else(tmp_path: Path, migrated: Path) -> None:
    shutil.copy(migrated, tmp_path)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    hooks = channel(tmp_path, **LOOPBACK, timeout=600)
    store = Store(f"sqlite:///{tmp_path}/aitne.db")
    await store.start()
    leader = Leader(store, "test")
    await leader.acquire()
    slow, quick = Receiver(silent=True), Receiver()
    servers = []
    for name, receiver in (("ada", slow), ("bob", quick)):
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        user = User(name=name, default_project="vision", created_at=now)
        await store.create_user(user, None, Project(name="vision", created_at=now))
        hook = Webhook(id=name, owner=name, url=f"http://127.0.0.1:{port}/", created_at=now)
        await store.create_webhook(hook, max_webhooks=9)

    async def add(name: str, messages: int) -> None:
        new = NewDelivery(channel="webhook", owner=name, target=name, message={"title": "t"})
        for _ in range(messages):
            await store.add_delivery(new)

    async def states(name: str) -> list[DeliveryState]:
        found = await store.list_deliveries(owner=name, channel="webhook", target=name, limit=99)
        return [each.state for each in found]

    deliverer = NotificationDispatcher(store, leader, lambda: now, {"webhook": hooks})
    await add("ada", MOST_AT_ONCE + 8)
    task = asyncio.create_task(deliverer.send_due_deliveries())
    try:
        async with asyncio.timeout(60):
            while len(slow.requests) < MAX_PER_USER:
                await store.wait_for_change(0.1)
            await add("bob", 3)
            while await states("bob") != [DeliveryState.SENT] * 3:
                await store.wait_for_change(0.5)
            assert len(slow.requests) == MAX_PER_USER
            assert set(await states("ada")) == {DeliveryState.WAITING}
            slow.silent = False
            slow.waiting.set()
            while set(await states("ada")) != {DeliveryState.SENT}:
                await store.wait_for_change(0.5)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        for server in servers:
            server.close()
            await server.wait_closed()
        await store.close()
