"""Announcements and maintenance over the API: readers and authors."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.models.user import Role
from tests.support.stage import Stage

ALL = "/api/v1/announcements"


async def tokens(stage: Stage) -> tuple[str, str, str]:
    """Return the tokens of an administrator, a member of vision, and another user."""
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    ada = await stage.token(await stage.add_user("ada", project="vision"))
    bob = await stage.token(await stage.add_user("bob"))
    return root, ada, bob


async def announce(stage: Stage, token: str, **body: Any) -> dict[str, Any]:
    async with stage.client(token) as client:
        answer = await client.post(ALL, json={"text": "Something.", **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{ALL}/{made['id']}"
    return made


async def texts(stage: Stage, token: str, **query: Any) -> list[str]:
    async with stage.client(token) as client:
        answer = await client.get(ALL, params=query)
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["items"]]


async def test_announcement_is_shown_to_its_users_during_its_period(stage: Stage) -> None:
    root, ada, bob = await tokens(stage)
    await announce(stage, root, text="For all.")
    await announce(stage, root, text="For vision.", projects=["vision"], severity="warning")
    later = {"starts_at": "2026-03-01T13:00:00Z", "ends_at": "2026-03-01T14:00:00Z"}
    await announce(stage, root, text="Later.", severity="critical", **later)
    assert await texts(stage, ada) == ["For vision.", "For all."]
    assert await texts(stage, bob) == ["For all."]
    assert sorted(await texts(stage, root, all=True)) == ["For all.", "For vision.", "Later."]
    stage.clock.move(3_600)
    assert await texts(stage, bob) == ["Later.", "For all."]
    stage.clock.move(3_600)
    assert await texts(stage, bob) == ["For all."]
    async with stage.client(ada) as client:
        assert (await client.get(ALL, params={"all": True})).status_code == 403


async def test_announcement_is_dismissed_per_user_unless_critical(
    stage: Stage,
) -> None:
    root, ada, bob = await tokens(stage)
    made = await announce(stage, root, text="Slow.")
    critical = await announce(stage, root, text="Fire.", severity="critical")
    hidden = await announce(stage, root, text="For vision.", projects=["vision"])

    async def dismissed(token: str) -> dict[str, bool]:
        async with stage.client(token) as client:
            items = (await client.get(ALL)).json()["items"]
        return {each["text"]: each["dismissed"] for each in items}

    async with stage.client(bob) as client:
        for _ in range(2):
            answer = await client.put(f"{ALL}/{made['id']}/dismissal")
            assert answer.status_code == 204
        assert (await client.put(f"{ALL}/{critical['id']}/dismissal")).status_code == 409
        assert (await client.put(f"{ALL}/{hidden['id']}/dismissal")).status_code == 404
        assert (await client.get(f"{ALL}/{hidden['id']}")).status_code == 404
    assert await dismissed(bob) == {"Fire.": False, "Slow.": True}
    assert (await dismissed(ada))["Slow."] is False


async def test_only_administrators_announce_change_and_delete(stage: Stage) -> None:
    root, ada, _ = await tokens(stage)
    made = await announce(stage, root)
    path = f"{ALL}/{made['id']}"
    for token, statuses in ((ada, (403, 403, 403)), (root, (201, 200, 204))):
        async with stage.client(token) as client:
            answers = (
                await client.post(ALL, json={"text": "x"}),
                await client.patch(path, json={"text": "y"}),
                await client.delete(path),
            )
        assert tuple(answer.status_code for answer in answers) == statuses


async def test_two_administrators_do_not_undo_each_others_change(stage: Stage) -> None:
    root, _, _ = await tokens(stage)
    made = await announce(stage, root)
    path = f"{ALL}/{made['id']}"
    async with stage.client(root) as client:
        seen = (await client.get(path)).headers["etag"]
        match = {"If-Match": seen}
        first = await client.patch(path, json={"severity": "warning"}, headers=match)
        assert (first.status_code, first.json()["severity"]) == (200, "warning")
        stage.clock.move(1)
        assert (await client.patch(path, json={"text": "y"}, headers=match)).status_code == 412
        assert (await client.delete(path, headers=match)).status_code == 412
        again = {"If-Match": first.headers["etag"]}
        ended = {"ends_at": "2026-03-02T00:00:00Z"}
        second = await client.patch(path, json=ended, headers=again)
        assert second.json()["text"] == "Something."
        open_end = await client.patch(path, json={"ends_at": None})
        assert open_end.json()["ends_at"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"text": " "},
        {"text": "x", "severity": "loud"},
        {"text": "x", "starts_at": "2026-03-01T13:00:00Z", "ends_at": "2026-03-01T13:00:00Z"},
        {"text": "x", "starts_at": "2026-03-01T13:00:00"},
        {"text": "x", "colour": "red"},
    ],
)
async def test_invalid_announcement_is_refused(stage: Stage, body: dict[str, Any]) -> None:
    root, _, _ = await tokens(stage)
    async with stage.client(root) as client:
        assert (await client.post(ALL, json=body)).status_code == 422


async def test_text_is_kept_as_it_was_written(stage: Stage) -> None:
    root, ada, _ = await tokens(stage)
    await announce(stage, root, text=" <script>alert(1)</script>\nNew line ")
    assert await texts(stage, ada) == ["<script>alert(1)</script>\nNew line"]


async def test_maintenance_is_seen_by_all_and_set_by_administrators(stage: Stage) -> None:
    root, ada, _ = await tokens(stage)
    path = "/api/v1/maintenance"
    window = {
        "starts_at": "2026-03-01T13:00:00Z",
        "ends_at": "2026-03-01T15:00:00Z",
        "message": "New switches",
    }
    async with stage.client(ada) as client:
        assert (await client.get(path)).json()["phase"] == "off"
        assert (await client.put(path, json=window)).status_code == 403
        assert (await client.delete(path)).status_code == 403
    async with stage.client(root) as admin:
        off = (await admin.get(path)).headers["etag"]
        assert (await admin.put(path, json=window)).json()["phase"] == "scheduled"
        late = await admin.put(path, json={}, headers={"If-Match": off})
        assert late.status_code == 412
        past = {"starts_at": "2026-03-01T10:00:00Z", "ends_at": "2026-03-01T11:00:00Z"}
        assert (await admin.put(path, json=past)).status_code == 422
    async with stage.client(ada) as client:
        stage.clock.move(3_600)
        now = (await client.get(path)).json()
        assert (now["phase"], now["message"], now["created_by"]) == ("on", "New switches", "root")
        stage.clock.move(7_200)
        assert (await client.get(path)).json()["phase"] == "off"
    async with stage.client(root) as admin:
        assert (await admin.put(path, json={})).json()["phase"] == "on"
        assert (await admin.delete(path)).json()["phase"] == "off"
        assert (await admin.get(path)).json()["phase"] == "off"


async def test_a_plan_warns_of_a_maintenance_that_the_job_reaches_into(stage: Stage) -> None:
    root, ada, _ = await tokens(stage)
    await stage.add_node()
    job = {"commands": ["true"], "max_duration": "2h"}

    async def plan(**changes: Any) -> dict[str, Any]:
        async with stage.client(ada) as client:
            answer = await client.post("/api/v1/jobs:plan", json={**job, **changes})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async with stage.client(root) as admin:
        window = {"starts_at": "2026-03-01T13:00:00Z", "message": "New switches"}
        await admin.put("/api/v1/maintenance", json=window)
    warned = await plan()
    assert [each for each in warned["warnings"] if "2026-03-01 13:00 UTC" in each]
    assert warned["starts_now"] is True
    short = await plan(max_duration="30m")
    assert not [each for each in short["warnings"] if "maintenance" in each.lower()]
    stage.clock.move(3_601)
    held = await plan(max_duration="30m")
    assert held["starts_now"] is False
    assert "Maintenance (New switches)" in held["pending_reason"]
