"""Inboxes, choices, webhooks and idle work over the API: each user sees their own alone."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.job import JobChanges
from aitne.core.models.notification import NewNotification, NotificationContent, NotificationKind
from aitne.core.models.user import Role
from tests.support.jobs import make_job, make_session
from tests.support.stage import Stage

V1 = "/api/v1"
URL = "https://hooks.example.org/aitne"


def test_platform_starts_without_the_modules_of_channels(tmp_path: Path) -> None:
    check = (
        "import sys; from pathlib import Path; from aitne.core.settings import Settings;"
        "from aitne.bootstrap.platform_services import build_platform;"
        "build_platform(Settings(data_dir=Path(sys.argv[1])));"
        "print(sorted({'httpx', 'smtplib'} & set(sys.modules)))"
    )
    argv = [sys.executable, "-c", check, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


async def tell(stage: Stage, owner: str, number: int) -> None:
    lease = await stage.store.acquire_lease("controller", "test", duration_s=3_600)
    assert lease is not None
    notice = NotificationContent(
        kind=NotificationKind.JOB_FINISHED, title=f"job{number} has finished"
    )
    told = NewNotification(owner=owner, event_id=number, notice=notice)
    since = await stage.store.get_event_cursor("n")
    await stage.store.add_notifications(
        [told], cursor="n", since=since, until=since + 1, epoch=lease.epoch
    )


async def call(stage: Stage, token: str, method: str, path: str, **options: Any) -> Any:
    async with stage.client(token) as client:
        return await client.request(method, f"{V1}{path}", **options)


async def ada_and_bob(stage: Stage) -> tuple[str, str]:
    ada, bob = await stage.add_user("ada", project="vision"), await stage.add_user("bob")
    return await stage.token(ada), await stage.token(bob)


class TestInbox:
    async def test_inbox_is_paged_and_read_by_its_owner_only(self, stage: Stage) -> None:
        ada, bob = await ada_and_bob(stage)
        for number in range(1, 4):
            await tell(stage, "ada", number)
        page = (await call(stage, ada, "GET", "/notifications?limit=2")).json()
        assert [each["title"] for each in page["items"]] == [
            "job3 has finished",
            "job2 has finished",
        ]
        assert (page["total"], page["unread"]) == (3, 3)
        cursor = page["next_cursor"]
        rest = (await call(stage, ada, "GET", f"/notifications?cursor={cursor}")).json()
        assert [each["title"] for each in rest["items"]] == ["job1 has finished"]
        ids = [each["id"] for each in page["items"]]
        others = await call(stage, bob, "POST", "/notifications/read", json={"ids": ids})
        assert others.json() == {"unread": 0}
        assert (await call(stage, ada, "GET", "/notifications")).json()["unread"] == 3
        read = await call(stage, ada, "POST", "/notifications/read", json={"ids": ids})
        assert read.json() == {"unread": 1}
        unread = (await call(stage, ada, "GET", "/notifications?unread=true")).json()
        assert unread["total"] == 1
        assert (await call(stage, bob, "GET", "/notifications")).json()["items"] == []

    async def test_a_token_that_may_only_read_marks_nothing(self, stage: Stage) -> None:
        ada = await stage.add_user("ada", project="vision")
        token = await stage.token(ada, Scope.READ)
        refused = await call(stage, token, "POST", "/notifications/read", json={})
        assert refused.status_code == 403


class TestSettings:
    async def test_notification_settings_are_kept_and_guarded_by_etag(self, stage: Stage) -> None:
        ada, bob = await ada_and_bob(stage)
        before = await call(stage, ada, "GET", "/notifications/settings")
        found = before.json()
        assert found["channels"] == ["browser", "webhook"]  # no mail server is named here
        assert found["choices"]["job_started"] == {"browser": False, "webhook": False}
        chosen = {"job_started": {"browser": True}}
        body = {"choices": chosen, "mail": "ada@example.org"}
        tag = {"If-Match": before.headers["etag"]}
        saved = await call(stage, ada, "PUT", "/notifications/settings", json=body, headers=tag)
        assert saved.status_code == 200
        assert saved.json()["choices"]["job_started"]["browser"] is True
        assert saved.json()["mail"] == "ada@example.org"
        late = await call(stage, ada, "PUT", "/notifications/settings", json=body, headers=tag)
        assert late.status_code == 412
        assert (await call(stage, bob, "GET", "/notifications/settings")).json()["mail"] is None

    @pytest.mark.parametrize(
        "body",
        [
            {"choices": {}, "mail": "ada@example.org\r\nBcc: all@example.org"},
            {"choices": {}, "mail": "nobody"},
            {"choices": {"nonsense": {}}},
            {"choices": {"job_failed": {"smoke": True}}},
            {"choices": {}, "surplus": 1},
        ],
    )
    async def test_invalid_notification_settings_are_refused(
        self, stage: Stage, body: dict[str, Any]
    ) -> None:
        ada, _ = await ada_and_bob(stage)
        answer = await call(stage, ada, "PUT", "/notifications/settings", json=body)
        assert answer.status_code == 422, answer.text

    async def test_a_test_mail_needs_somewhere_to_go(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        assert (await call(stage, ada, "POST", "/notifications/mail/test")).status_code == 422


class TestWebhooks:
    async def test_a_secret_is_shown_once(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        made = await call(stage, ada, "POST", "/webhooks", json={"url": URL})
        assert made.status_code == 201
        hook = made.json()
        assert hook["secret"].startswith("whsec_")
        assert made.headers["location"] == f"{V1}/webhooks/{hook['id']}"
        for path in ("/webhooks", f"/webhooks/{hook['id']}"):
            assert "secret" not in (await call(stage, ada, "GET", path)).text
        rotated = await call(stage, ada, "POST", f"/webhooks/{hook['id']}/rotate")
        assert rotated.json()["secret"] not in ("", hook["secret"])

    async def test_webhook_is_changed_tested_and_deleted(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        hook = (await call(stage, ada, "POST", "/webhooks", json={"url": URL})).json()
        path = f"/webhooks/{hook['id']}"
        tag = {"If-Match": (await call(stage, ada, "GET", path)).headers["etag"]}
        off = await call(stage, ada, "PATCH", path, json={"enabled": False}, headers=tag)
        assert (off.json()["enabled"], off.json()["disabled_reason"]) == (False, "Disabled by ada.")
        late = await call(stage, ada, "PATCH", path, json={"enabled": True}, headers=tag)
        assert late.status_code == 412
        assert (await call(stage, ada, "POST", f"{path}/test")).json()["state"] == "waiting"
        log = (await call(stage, ada, "GET", f"{path}/deliveries")).json()["items"]
        assert [each["kind"] for each in log] == ["test"]
        assert (await call(stage, ada, "DELETE", path)).status_code == 204
        assert (await call(stage, ada, "GET", path)).status_code == 404

    async def test_webhook_tests_are_rate_limited(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        answers = []
        for _ in range(2):  # another webhook makes no new beginning
            hook = (await call(stage, ada, "POST", "/webhooks", json={"url": URL})).json()
            path = f"/webhooks/{hook['id']}"
            answers += [await call(stage, ada, "POST", f"{path}/test") for _ in range(6)]
            await call(stage, ada, "DELETE", path)
        assert [each.status_code for each in answers] == [202] * 10 + [429] * 2

    async def test_there_are_not_more_than_ten(self, stage: Stage) -> None:
        ada, bob = await ada_and_bob(stage)
        for _ in range(10):
            assert (await call(stage, ada, "POST", "/webhooks", json={"url": URL})).is_success
        assert (await call(stage, ada, "POST", "/webhooks", json={"url": URL})).status_code == 409
        assert (await call(stage, bob, "POST", "/webhooks", json={"url": URL})).is_success

    @pytest.mark.parametrize(
        "url",
        ["http://hooks.example.org/", "https://127.0.0.1/", "https://[::1]/", "https://localhost/"],
    )
    async def test_webhook_with_insecure_or_local_url_is_refused(
        self, stage: Stage, url: str
    ) -> None:
        ada, _ = await ada_and_bob(stage)
        answer = await call(stage, ada, "POST", "/webhooks", json={"url": url})
        assert answer.status_code == 422
        assert answer.json()["problems"][0]["field"] == "url"

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "", None),
            ("PATCH", "", {"enabled": False}),
            ("DELETE", "", None),
            ("POST", "/rotate", None),
            ("POST", "/test", None),
            ("GET", "/deliveries", None),
        ],
    )
    @pytest.mark.parametrize("who", ["stranger", "administrator"])
    async def test_webhook_of_other_user_is_not_found(
        self, stage: Stage, who: str, method: str, path: str, body: Any
    ) -> None:
        ada, bob = await ada_and_bob(stage)
        root = await stage.token(await stage.add_user("root", Role.ADMIN))
        hook = (await call(stage, ada, "POST", "/webhooks", json={"url": URL})).json()
        token = bob if who == "stranger" else root
        answer = await call(stage, token, method, f"/webhooks/{hook['id']}{path}", json=body)
        assert answer.status_code == 404
        assert (await call(stage, ada, "GET", f"/webhooks/{hook['id']}")).json()["enabled"]


class TestIdle:
    async def test_a_session_is_kept(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        job = make_session(
            owner="ada", spec={"type": "session", "project": "vision", "inactivity_duration_s": 60}
        )
        await stage.store.create_job(job)
        for state in (
            *(JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING),
            *(JobState.RUNNING, JobState.READY),
        ):
            await stage.store.transition_job(job.id, state)
        ends = stage.clock.now + timedelta(seconds=15)
        await stage.store.transition_job(job.id, JobState.READY, JobChanges(idle_ends_at=ends))
        shown = (await call(stage, ada, "GET", f"/sessions/{job.id}")).json()
        assert (shown["idle_ends_at"] is not None, shown["inactivity_duration_s"]) == (True, 60)
        kept = await call(stage, ada, "POST", f"/sessions/{job.id}/keep")
        assert (kept.status_code, kept.json()["idle_ends_at"]) == (200, None)
        (activity,) = await stage.store.list_activities()
        assert activity.active_at == stage.clock.now

    async def test_session_that_does_not_run_cannot_be_kept(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        job = make_session(owner="ada")
        await stage.store.create_job(job)
        assert (await call(stage, ada, "POST", f"/sessions/{job.id}/keep")).status_code == 409

    async def test_administrators_see_who_leaves_gpus_idle(self, stage: Stage) -> None:
        ada, _ = await ada_and_bob(stage)
        root = await stage.token(await stage.add_user("root", Role.ADMIN))
        job = make_job(owner="ada", spec={"resources": {"nodes": 2, "gpu": {"count": 4}}})
        await stage.store.create_job(job)
        changes = JobChanges(gpu_idle_since=stage.clock.now)
        await stage.store.transition_job(job.id, JobState.PENDING_SUBMIT, changes)
        found = (await call(stage, root, "GET", "/admin/idle-gpus")).json()
        assert ([each["id"] for each in found["items"]], found["gpus"]) == ([str(job.id)], 8)
        assert (await call(stage, ada, "GET", "/admin/idle-gpus")).status_code == 403

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"type": "session", "inactivity_duration": "1h"}, 200),
            ({"type": "session", "inactivity_duration": "off"}, 200),
            ({"type": "session", "inactivity_duration": False}, 200),
            ({"type": "session", "inactivity_duration": "never"}, 422),
            ({"type": "job", "commands": ["true"], "inactivity_duration": "1h"}, 422),
        ],
    )
    async def test_a_job_file_says_when(
        self, stage: Stage, body: dict[str, Any], status: int
    ) -> None:
        ada, _ = await ada_and_bob(stage)
        await stage.add_node()
        answer = await call(stage, ada, "POST", "/jobs:plan", json=body)
        assert answer.status_code == status, answer.text
        if status == 200:
            expected = 3_600 if body["inactivity_duration"] == "1h" else None
            assert answer.json()["spec"]["inactivity_duration_s"] == expected
