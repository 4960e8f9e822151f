"""Alerts become notifications of administrators, and a resolved alert closes them."""

from __future__ import annotations

from typing import Any

from aitne.core.models.alert import AlertStatus, PlatformAlert
from aitne.core.models.notification import NotificationKind
from aitne.core.models.user import Role
from tests.support.jobs import CREATED_AT
from tests.unit.controller.conftest import Bench
from tests.unit.controller.test_telling import Wire, person, read, titles

K = NotificationKind


async def save(b: Bench, status: AlertStatus) -> None:
    alert = PlatformAlert(
        fingerprint="c2a8",
        status=status,
        name="AitneDiskFull",
        severity="critical",
        summary="The disk is full",
        description="2 % are free.",
        runbook_url="https://docs.example.org/alerts#aitnediskfull",
        starts_at=CREATED_AT,
        changed_at=b.clock(),
        seen_at=b.clock(),
    )
    await b.store.save_alerts([alert], max_firing=10)


async def test_administrators_are_told_and_a_resolved_alert_closes(bench: Any) -> None:
    b: Bench = await bench()
    mail = Wire()
    await person(b)
    await person(b, "root", role=Role.ADMIN, mail="root@example.org")
    await save(b, AlertStatus.FIRING)
    await read(b, mail)
    (found,) = (await b.store.list_notifications("root")).items
    assert (found.kind, found.level, found.title) == (K.ALERT, "error", "The disk is full")
    assert found.text.endswith("Runbook: https://docs.example.org/alerts#aitnediskfull")
    assert await b.store.count_unread_notifications("root") == 1
    (delivery,) = await b.store.lease_deliveries(epoch=b.leader.epoch, limit=9, lease_s=99)
    assert (delivery.owner, delivery.channel) == ("root", "mail")

    b.clock.advance(60)
    await save(b, AlertStatus.RESOLVED)
    await read(b, mail)
    resolved, closed = (await b.store.list_notifications("root")).items
    assert (resolved.level, resolved.title) == ("success", "Resolved: The disk is full")
    assert closed.read_at == b.clock()
    assert await b.store.count_unread_notifications("root") == 1
    assert await titles(b) == []


async def test_only_the_present_status_of_an_alert_is_told(bench: Any) -> None:
    b: Bench = await bench()
    await person(b, "root", role=Role.ADMIN)
    for status in (AlertStatus.FIRING, AlertStatus.RESOLVED, AlertStatus.FIRING):
        b.clock.advance(1)
        await save(b, status)
    await read(b)
    assert await titles(b, "root") == ["The disk is full"]
