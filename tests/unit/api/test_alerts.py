"""Alerts: what Alertmanager may send, and what administrators learn of it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from aitne.api.routers.alertmanager import ALERTS_TOKEN
from aitne.core.errors import StoreUnavailable
from aitne.core.models.user import Role
from aitne.services.notifications import monitoring_alerts as alerts_service
from tests.support.stage import SECRETS, Stage

FIRING = {
    "status": "firing",
    "labels": {"alertname": "AitneDiskFull", "severity": "critical", "area": "data_dir"},
    "annotations": {
        "summary": "The disk of data_dir\nis full",
        "description": "2 % are free.",
        "runbook_url": "https://docs.example.org/alerts#aitnediskfull",
    },
    "startsAt": "2026-03-01T11:59:00.123456789Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus:9090/graph",
    "fingerprint": "c2a8f1b3d4e5f607",
}


def message(*alerts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": '{}:{alertname="AitneDiskFull"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "aitne",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": [*alerts],
        **fields,
    }


async def send(stage: Stage, body: Any, token: str = SECRETS[ALERTS_TOKEN]) -> httpx.Response:
    async with stage.client(token) as client:
        return await client.post("/api/v1/alerts", json=body)


async def changes(stage: Stage) -> int:
    events = await stage.store.list_events_after(0)
    return sum(event.kind == "alert.changed" for event in events)


async def test_an_alert_is_stored_once_however_often_it_is_sent(stage: Stage) -> None:
    for _ in range(3):
        assert (await send(stage, message(FIRING))).status_code == 204
    assert await changes(stage) == 1
    alert = await stage.store.find_alert("c2a8f1b3d4e5f607")
    assert alert is not None
    assert (alert.summary, alert.severity) == ("The disk of data_dir is full", "critical")
    resolved = {**FIRING, "status": "resolved", "endsAt": "2026-03-01T12:09:00Z"}
    for _ in range(2):
        assert (await send(stage, message(resolved, status="resolved"))).status_code == 204
    assert await changes(stage) == 2
    earlier = {**FIRING, "startsAt": "2026-03-01T09:00:00Z"}
    await send(stage, message(earlier))
    assert await changes(stage) == 2, "a message that was delayed"
    await send(stage, message(FIRING))
    assert await changes(stage) == 3, "it fires again"
    await send(stage, message({**resolved, "fingerprint": "0a"}))
    assert await changes(stage) == 3, "an alert that never fired here"


RUBBISH = {
    "another version": message(FIRING, version="3"),
    "no list": message(FIRING, alerts={"0": FIRING}),
    "too many": message(*[FIRING] * 501),
    "a list": [FIRING],
    "nothing": None,
    "a status": message({**FIRING, "status": "suppressed"}),
    "a fingerprint": message({**FIRING, "fingerprint": "../../etc/passwd"}),
    "a label's name": message({**FIRING, "labels": {"a b": "c"}}),
    "a label's value": message({**FIRING, "labels": {"alertname": 7}}),
    "a long text": message({**FIRING, "annotations": {"summary": "x" * 5_000}}),
    "no time zone": message({**FIRING, "startsAt": "2026-03-01T11:59:00"}),
    "one of two": message(FIRING, {**FIRING, "startsAt": None}),
}


async def test_rubbish_is_refused_as_a_whole(stage: Stage) -> None:
    for what, body in RUBBISH.items():
        assert (await send(stage, body)).status_code == 422, what
    async with stage.client(SECRETS[ALERTS_TOKEN]) as client:
        large = await client.post("/api/v1/alerts", content=b"x" * (2 << 20))
        assert large.status_code == 413
        broken = await client.post("/api/v1/alerts", content=b'{"version": "4", "alerts": [')
        assert broken.status_code == 422
    assert await changes(stage) == 0


async def test_alerts_need_their_own_token(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    for token in (await stage.token(root), "wrong", "", SECRETS["metrics_token"]):
        assert (await send(stage, message(FIRING), token)).status_code == 401
    assert await changes(stage) == 0


def numbered(number: int, status: str = "firing") -> dict[str, Any]:
    return {**FIRING, "fingerprint": f"{number:x}", "status": status}


async def status(stage: Stage, number: int) -> str | None:
    alert = await stage.store.find_alert(f"{number:x}")
    return None if alert is None else alert.status.value


async def test_resolved_alerts_are_accepted_beyond_the_maximum_and_new_ones_dropped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alerts_service, "MOST_FIRING", 2)
    many = message(*map(numbered, range(4)))
    assert (await send(stage, many)).status_code == 204
    assert await changes(stage) == 2
    assert "2 alerts were dropped" in caplog.text
    # The resolved one makes room, wherever it is in the message.
    mixed = message(numbered(2), numbered(3), numbered(0, "resolved"))
    assert (await send(stage, mixed)).status_code == 204
    assert [await status(stage, number) for number in range(4)] == [
        "resolved",
        "firing",
        "firing",
        None,
    ]


async def test_firing_alert_that_is_not_repeated_is_forgotten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts_service, "MOST_FIRING", 2)
    await send(stage, message(numbered(1), numbered(2)))
    for _ in range(3):
        stage.clock.move(12 * 3_600)
        await send(stage, message(numbered(1)))
    assert await status(stage, 1) == "firing", "it is repeated"
    assert await status(stage, 2) is None, "its message that it is resolved was lost"
    assert await changes(stage) == 2
    await send(stage, message(numbered(3), numbered(1, "resolved")))
    assert (await status(stage, 3), await status(stage, 1)) == ("firing", "resolved")
    stage.clock.move(8 * 24 * 3_600)
    now = stage.clock()
    await stage.store.delete_old_records(events_before=now, idempotency_before=now)
    assert (await status(stage, 3), await status(stage, 1)) == (None, None)


async def test_alertmanager_repeats_what_the_database_could_not_store(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> int:
        raise StoreUnavailable("The disk is full. Make room.")

    monkeypatch.setattr(stage.store, "save_alerts", away, raising=False)
    assert (await send(stage, message(FIRING))).status_code == 503
