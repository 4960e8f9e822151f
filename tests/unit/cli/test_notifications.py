"""``notifications``, ``webhook`` and ``keep`` against a scripted API."""

from __future__ import annotations

from typing import Any

from tests.support.fake_api import JOB_ID, Answer, FakeApi, job, page, problem
from tests.unit.cli.conftest import Aitne

HOOK = {
    "id": "wh_1",
    "url": "https://hooks.example.org/aitne",
    "created_at": "2026-03-01T08:00:00Z",
    "enabled": True,
    "failures": 0,
    "disabled_reason": None,
}


def delivery(**fields: Any) -> dict[str, Any]:
    return {
        "id": 3,
        "kind": "test",
        "title": "This is a test",
        "state": "waiting",
        "attempts": 0,
        "status": None,
        "error": None,
        "created_at": "2026-03-01T08:00:00Z",
        "next_attempt_at": None,
        "finished_at": None,
        **fields,
    }


def told(**fields: Any) -> dict[str, Any]:
    return {
        "id": 17,
        "kind": "job_failed",
        "level": "error",
        "title": "train \x1b[31mfailed",
        "text": "",
        "job_id": JOB_ID,
        "path": f"/jobs/{JOB_ID}",
        "data": {},
        "created_at": "2026-03-01T08:00:00Z",
        "read_at": None,
        **fields,
    }


def test_the_inbox_is_listed_and_marked_as_read(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/notifications", {**page(told()), "unread": 1})
    api.on("POST", "/notifications/read", {"unread": 0})
    listed = aitne("notifications", "ls")
    assert "failed" in listed.out
    assert "\x1b" not in listed.out
    assert api.sent("GET", "/notifications")[0].query["unread"] == ["true"]
    assert aitne("notifications", "ls", "--all", "--json").json[0]["id"] == 17
    assert "unread" not in api.sent("GET", "/notifications")[1].query
    assert aitne("notifications", "read").status == 2
    assert aitne("notifications", "read", "17", "--all").status == 2
    assert aitne("notifications", "read", "17").status == 0
    assert aitne("notifications", "read", "--all", "--json").json == {"unread": 0}
    assert [each.json for each in api.sent("POST", "/notifications/read")] == [{"ids": [17]}, {}]


def test_a_webhook_from_its_secret_to_its_end(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/webhooks", {"items": [HOOK]})
    api.on("GET", "/webhooks/wh_1", HOOK)
    api.on("POST", "/webhooks", {**HOOK, "secret": "whsec_x"})
    api.on("POST", "/webhooks/wh_1/rotate", {**HOOK, "secret": "whsec_y"})
    api.on("PATCH", "/webhooks/wh_1", HOOK)
    api.on("DELETE", "/webhooks/wh_1", Answer(204))
    made = aitne("webhook", "add", HOOK["url"])
    assert "whsec_x" in made.out
    assert "not shown again" in made.err
    assert HOOK["url"] in aitne("webhook", "ls").out
    assert aitne("webhook", "rotate", "wh_1").status == 2
    assert aitne("webhook", "rotate", "wh_1", "--yes", "--json").json["secret"] == "whsec_y"
    assert aitne("webhook", "enable", "wh_1").status == 0
    assert api.sent("PATCH", "/webhooks/wh_1")[0].json == {"enabled": True}
    assert aitne("webhook", "rm", "wh_1").status == 2
    assert not api.sent("DELETE", "/webhooks/wh_1")
    assert aitne("webhook", "rm", "wh_1", "--yes").status == 0


def test_a_test_waits_for_what_becomes_of_it(aitne: Aitne, api: FakeApi) -> None:
    failed = delivery(state="failed", attempts=1, status=500, error="hooks answers 500.")
    api.on("POST", "/webhooks/wh_1/test", delivery())
    api.on(
        "GET",
        "/webhooks/wh_1/deliveries",
        {"items": [delivery()]},
        {"items": [delivery(state="sent", attempts=1, status=204)]},
        {"items": [failed]},
    )
    sent = aitne("webhook", "test", "wh_1")
    assert (sent.status, sent.err) == (0, "Accepted, with status 204.\n")
    refused = aitne("webhook", "test", "wh_1")
    assert (refused.status, refused.err) == (1, "hooks answers 500.\n")
    assert "hooks answers 500." in aitne("webhook", "log", "wh_1").out


def test_an_idle_session_is_kept(aitne: Aitne, api: FakeApi) -> None:
    session = job(type="session", inactivity_duration_s=3_600)
    api.on("GET", f"/jobs/{JOB_ID}", session)
    api.on("POST", f"/sessions/{JOB_ID}/keep", session)
    assert "another 1h" in aitne("keep", JOB_ID).err
    api.on("POST", f"/sessions/{JOB_ID}/keep", problem(409, "conflict", "It is COMPLETED."))
    assert aitne("keep", JOB_ID).status != 0


def test_notification_settings_are_shown_and_changed(aitne: Aitne, api: FakeApi) -> None:
    kept = {
        "channels": ["browser", "mail"],
        "mail": "ada@example.org",
        "choices": {
            "job_failed": {"browser": True, "mail": False},
            "job_finished": {"browser": True, "mail": False},
        },
        "quiet_until": None,
    }
    api.on("GET", "/notifications/settings", kept, kept, kept)
    assert aitne("notifications", "settings", "--json").json == kept
    shown = aitne("notifications", "settings")
    assert shown.out.splitlines()[1].split() == ["job_failed", "yes"]
    assert "ada@example.org" in shown.err
    api.on("PUT", "/notifications/settings", kept)
    change = ("--tell", "job_failed=mail", "--not", "job_finished=browser", "--mail", "none")
    done = aitne("notifications", "settings", *change)
    assert done.status == 0, done.err
    assert api.requests[-1].json == {
        "choices": {
            "job_failed": {"browser": True, "mail": True},
            "job_finished": {"browser": False, "mail": False},
        },
        "mail": None,
        "quiet_until": None,
    }
