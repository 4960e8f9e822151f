"""Projects over HTTP: members, limits, usage, and Slurm's accounts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from aitne.core.models.limits import (
    AssociationUse,
    Gauge,
    Limits,
    LimitsApplied,
    LimitUsage,
    Usage,
)
from aitne.core.models.project import ProjectRole
from aitne.core.models.user import Role
from aitne.core.ports.accounting import (
    AddMember,
    Association,
    Associations,
    SetLimit,
    SlurmUser,
)
from aitne.core.ports.scheduler import get_scheduler_capabilities
from aitne.services.projects.limit_checks import LimitSupport
from aitne.services.projects.slurm_account_import import AccountImport
from tests.support.stage import Stage, unix_name

WHO = ("member", "manager", "stranger", "administrator")
Body = dict[str, Any] | None
LATER = "2027-01-01T00:00:00Z"
# verb, path, body; then the status for a member, a manager, a stranger, an administrator.
VERBS: dict[str, tuple[str, str, Body, tuple[int, int, int, int]]] = {
    "get": ("GET", "/projects/vision", None, (200, 200, 404, 200)),
    "rename": ("PATCH", "/projects/vision", {"title": "V"}, (403, 200, 404, 200)),
    "members": ("GET", "/projects/vision/members", None, (200, 200, 404, 200)),
    "add": ("PUT", "/projects/vision/members/eve", {}, (403, 200, 404, 200)),
    "remove": ("DELETE", "/projects/vision/members/bob", None, (403, 204, 404, 204)),
    "limits": ("GET", "/projects/vision/limits", None, (200, 200, 404, 200)),
    "set limits": ("PUT", "/projects/vision/limits", {"max_gpus": 1}, (403, 403, 403, 200)),
    "usage": ("GET", "/projects/vision/usage", None, (200, 200, 404, 200)),
    "usage as text": ("GET", "/projects/vision/usage.csv", None, (200, 200, 404, 200)),
    "balance": ("GET", "/projects/vision/balance", None, (200, 200, 404, 200)),
    "report": ("GET", "/projects/vision/report", None, (200, 200, 404, 200)),
    "waiting": ("GET", "/projects/vision/waiting", None, (200, 200, 404, 200)),
    "ask": ("POST", "/projects", {"name": "audio"}, (201, 201, 201, 201)),
    "approve": ("POST", "/projects/vision/approve", {}, (403, 403, 403, 409)),
    "decline": ("POST", "/projects/vision/decline", {"reason": "No"}, (403, 403, 403, 409)),
    "close": ("POST", "/projects/vision/close", {}, (403, 200, 404, 200)),
    "reopen": ("POST", "/projects/vision/reopen", None, (403, 409, 404, 409)),
    "set end": ("PUT", "/projects/vision/end", {"expires_at": LATER}, (403, 403, 403, 200)),
    "ask for time": (
        *("POST", "/projects/vision/extension", {"until": LATER}),
        (403, 422, 404, 422),
    ),
    "budget": ("PUT", "/projects/vision/budget", {"gpu_hours": 5}, (403, 403, 403, 200)),
    "own limits": ("PUT", "/projects/vision/limits/own", {"max_gpus": 1}, (403, 200, 404, 200)),
    "promote": ("PUT", "/projects/vision/members/bob", {"role": "manager"}, (403, 200, 404, 200)),
    "default": ("PUT", "/projects/vision/members/bob", {"default": True}, (403, 403, 404, 200)),
    "invitations": ("GET", "/projects/vision/invitations", None, (403, 200, 404, 200)),
    "invite": ("POST", "/projects/vision/invitations", {}, (403, 201, 404, 201)),
    "revoke": (
        *("DELETE", "/projects/vision/invitations/0123456789abcdef", None),
        (403, 404, 404, 404),
    ),
    "join": ("POST", "/invitations/accept", {"token": "nobody's"}, (404, 404, 404, 404)),
    "all usage": ("GET", "/usage", None, (200, 200, 200, 200)),
    "compare": ("GET", "/admin/sync", None, (403, 403, 403, 200)),
    "sync": ("POST", "/admin/sync", {"digest": "x"}, (403, 403, 403, 409)),
}


async def people(stage: Stage) -> dict[str, str]:
    made = {
        "member": await stage.add_user("ada", project="vision"),
        "manager": await stage.add_user("mia", project="vision"),
        "stranger": await stage.add_user("eve"),
        "administrator": await stage.add_user("root", Role.ADMIN),
    }
    await stage.add_user("bob")
    await stage.store.save_member("vision", "bob", actor="root")
    await stage.store.set_member_role("vision", "mia", ProjectRole.MANAGER, actor="root")
    return {who: await stage.token(actor) for who, actor in made.items()}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("who", WHO)
async def test_project_permissions_match_table(
    peopled: Stage, tokens: dict[str, str], verb: str, who: str
) -> None:
    method, path, body, statuses = VERBS[verb]
    before = await peopled.store.get_last_event_id()
    async with peopled.client(tokens[who]) as client:
        answer = await client.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == statuses[WHO.index(who)], answer.text
    if answer.status_code in (403, 404):
        assert await peopled.store.get_last_event_id() == before
        assert peopled.accounting.now.members == ()


@pytest.mark.parametrize("verb", VERBS)
async def test_project_requests_without_login_are_refused(peopled: Stage, verb: str) -> None:
    method, path, body, _ = VERBS[verb]
    async with peopled.client() as client:
        assert (await client.request(method, f"/api/v1{path}", json=body)).status_code == 401


async def test_an_administrator_names_the_first_manager(stage: Stage) -> None:
    tokens = await people(stage)
    async with stage.client(tokens["administrator"]) as client:
        made = await client.post("/api/v1/projects", json={"name": "audio", "manager": "eve"})
        assert (made.status_code, made.json()["managers"]) == (201, ["eve"])
        unknown = await client.post("/api/v1/projects", json={"name": "video", "manager": "zoe"})
        assert (unknown.status_code, unknown.json()["problems"][0]["field"]) == (422, "manager")
        assert (await client.get("/api/v1/projects/video")).status_code == 404
        shared = (await client.get("/api/v1/projects?personal=false&q=audio&limit=1")).json()
        assert ([each["name"] for each in shared["items"]], shared["total"]) == (["audio"], 1)


async def test_members_and_limits_come_and_go(stage: Stage) -> None:
    tokens = await people(stage)
    async with stage.client(tokens["administrator"]) as client:
        made = await client.post("/api/v1/projects", json={"name": "audio", "title": "A"})
        assert made.headers["location"] == "/api/v1/projects/audio"
        twice = await client.post("/api/v1/projects", json={"name": "audio"})
        assert twice.status_code == 409
        limits = {"max_gpus": 8, "max_memory_bytes": "1T", "max_wall_s": "2d"}
        set_ = await client.put("/api/v1/projects/audio/limits", json=limits)
        assert set_.json()["limits"]["max_memory_bytes"] == 1 << 40
        assert set_.json()["limits"]["max_wall_s"] == 2 * 86_400
        await client.put(
            "/api/v1/projects/audio/members/eve",
            json={"limits": {"max_gpus": 2}, "default": True},
        )
        assert (await client.get("/api/v1/users/eve")).json()["default_project"] == "audio"
        kept = await client.put("/api/v1/projects/audio/members/eve", json={})
        assert kept.json()["limits"]["max_gpus"] == 2
        [member] = (await client.get("/api/v1/projects/audio/members")).json()["items"]
        assert (member["user"], member["limits"]["max_gpus"]) == ("eve", 2)
        stays = await client.delete("/api/v1/projects/audio/members/eve")
        assert stays.status_code == 409
        assert "default project" in stays.json()["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_gpus": -1},
        {"max_gpus": "many"},
        {"max_memory_bytes": 1_000},
        {"max_wall_s": 61},
        {"max_gpus_by_type": {"a b": 1}},
        {"qos": ["a,b"]},
        {"qos": ["-normal"]},
        {"gpus": 1},
    ],
)
async def test_limits_that_slurm_could_not_hold(stage: Stage, wrong: dict[str, Any]) -> None:
    tokens = await people(stage)
    async with stage.client(tokens["administrator"]) as client:
        answer = await client.put("/api/v1/projects/vision/limits", json=wrong)
        assert answer.status_code == 422
        assert answer.json()["problems"][0]["field"].split(".")[0] in wrong
    assert await stage.store.get_limits("vision") == Limits()


async def test_project_use_is_shown_per_member(stage: Stage) -> None:
    tokens = await people(stage)
    epoch = await stage.add_node()
    look = LimitUsage(
        enforced=frozenset({"limits"}),
        associations=(
            AssociationUse(
                account="vision",
                tres={"gres/gpu": Gauge(limit=8, used=6), "mem": Gauge(limit=None, used=2_048)},
                grp_jobs=Gauge(limit=9, used=2),
            ),
            AssociationUse(
                account="vision", user="ada", tres={"gres/gpu": Gauge(limit=None, used=4)}
            ),
            AssociationUse(
                account="vision", user="bob", tres={"gres/gpu": Gauge(limit=None, used=2)}
            ),
        ),
    )
    await stage.store.save_limit_usage(look, stage.clock.now, epoch=epoch)
    async with stage.client(tokens["member"]) as client:
        found = (await client.get("/api/v1/projects/vision/limits")).json()
    uses = {each["limit"]: each for each in found["use"]}
    assert uses["max_gpus"]["summary"] == "project vision: 6 of 8 GPUs in use by ada 4, bob 2"
    assert uses["max_gpus"]["by_user"] == {"ada": 4, "bob": 2}
    assert (uses["max_jobs"]["used"], uses["max_jobs"]["maximum"]) == (2, 9)
    assert uses["max_memory_bytes"]["used"] == 2 << 30


async def test_usage_of_the_projects_one_may_see(stage: Stage) -> None:
    tokens = await people(stage)
    stage.accounting.used = [
        Usage(account="vision", user="ada", cpu_s=3_600, gpu_s=9_000, jobs=2),
        Usage(account="eve", user="eve", cpu_s=60, gpu_s=0, jobs=1),
    ]
    async with stage.client(tokens["member"]) as client:
        mine = (await client.get("/api/v1/usage?month=2025-11")).json()
        assert [(row["project"], row["gpu_hours"]) for row in mine["rows"]] == [("vision", 2.5)]
        assert mine["ends_at"] == mine["as_of"] == "2025-12-01T00:00:00Z"
        await client.get("/api/v1/projects/vision/usage?month=2025-11")
    month = (datetime(2025, 11, 1, tzinfo=UTC), datetime(2025, 12, 1, tzinfo=UTC))
    assert stage.accounting.asked == [month], "one question for all who ask"
    async with stage.client(tokens["administrator"]) as client:
        everything = (await client.get("/api/v1/usage?month=2025-11")).json()
        assert len(everything["rows"]) == 2
        for wrong in ("2025-13", "25-1", "next"):
            answer = await client.get(f"/api/v1/usage?month={wrong}")
            assert answer.json()["problems"][0]["field"] == "month"
        stage.accounting.down = True
        answer = await client.get("/api/v1/usage?month=2025-10")
        assert answer.status_code == 503


async def test_sync_shows_applies_and_finds_nothing_then(stage: Stage) -> None:
    tokens = await people(stage)
    await stage.store.set_limits("vision", Limits(max_gpus=8), actor="root")
    async with stage.client(tokens["administrator"]) as client:
        shown = (await client.get("/api/v1/admin/sync")).json()
        rows = [(d["project"], d["user"], d["field"]) for d in shown["differences"]]
        assert ("vision", None, "GPUs at once") in rows
        assert ("vision", "ada", "member") in rows
        assert shown["unmanaged"] == [
            "project root: Slurm's account root is the parent of all others"
        ]
        done = await client.post("/api/v1/admin/sync", json={"digest": shown["digest"]})
        assert (done.status_code, done.json()["applied"]) == (200, True)
        again = (await client.get("/api/v1/admin/sync")).json()
        assert again["differences"] == []
        # An administrator changes the association in Slurm.
        await stage.accounting.apply_changes(
            [
                SetLimit(account="vision", limit="max_gpus", before=8, after=64),
                AddMember(account="vision", user="mallory"),
            ]
        )
        drift = (await client.get("/api/v1/admin/sync")).json()["differences"]
        assert [(d["user"], d["field"], d["slurm"], d["platform"]) for d in drift] == [
            (None, "GPUs at once", "64", "8"),
            ("mallory", "member", "present", "missing"),
        ]
        stale = await client.post("/api/v1/admin/sync", json={"digest": shown["digest"]})
        assert stale.status_code == 409
        stage.accounting.down = True
        assert (await client.get("/api/v1/admin/sync")).status_code == 503
    said = [
        each for each in await stage.store.list_events_after(0) if each.kind == "accounting.synced"
    ]
    assert [(each.owner, each.data["actor"]) for each in said] == [("root", "root")]


async def test_slurm_user_that_cannot_be_member_is_left_in_slurm(stage: Stage) -> None:
    tokens = await people(stage)
    stage.accounting.now = held()
    await importing(stage).run()
    async with stage.client(tokens["administrator"]) as client:
        report = (await client.get("/api/v1/admin/sync")).json()
    assert not [each for each in report["differences"] if each["project"] == "ml"]
    assert any(note.startswith("user daemon in account ml") for note in report["unmanaged"])


async def test_events_of_a_project_are_for_its_members(stage: Stage) -> None:
    from aitne.services.platform.event_hub import is_event_visible

    await people(stage)
    await stage.store.set_limits("vision", Limits(max_gpus=8), actor="root")
    [event] = [
        each
        for each in await stage.store.list_events_after(0)
        if each.kind == "project.changed" and each.data["what"] == "limits"
    ]
    assert is_event_visible(event, stage.actor("ada", Role.USER, "vision"))
    assert not is_event_visible(event, stage.actor("eve"))


def held() -> Associations:
    return Associations(
        cluster="dev",
        accounts=(
            Association(account="root"),
            Association(account="ml", parent="root", limits=Limits(max_gpus=8)),
            Association(account="+lives", parent="root"),
        ),
        members=(
            Association(account="ml", user="alice", limits=Limits(max_gpus=2)),
            Association(account="ml", user="bob"),
            Association(account="ml", user="operator"),
            Association(account="ml", user="daemon"),
            Association(account="+lives", user="cat"),
        ),
        users=(
            SlurmUser(name="alice", default_account="ml"),
            SlurmUser(name="bob", default_account="ml"),
            SlurmUser(name="operator", default_account="ml", admin_level="Operator"),
            SlurmUser(name="daemon", default_account="ml"),
            SlurmUser(name="cat", default_account="+lives"),
            SlurmUser(name="root", default_account="root", admin_level="Administrator"),
        ),
    )


def importing(stage: Stage) -> AccountImport:
    return AccountImport(
        stage.store, stage.accounting, unix_name, stage.clock, map_={}, operators=frozenset()
    )


async def test_slurms_users_become_users(stage: Stage) -> None:
    stage.accounting.now = held()
    await importing(stage).run()
    names = [user.name for user in (await stage.store.list_users()).items]
    assert names == ["alice", "bob"]
    alice = await stage.store.get_user("alice")
    assert (alice.role, alice.default_project) == (Role.USER, "ml")
    assert await stage.store.find_password_hash("alice") is None
    assert await stage.store.get_limits("ml") == Limits(max_gpus=8)
    alices, bobs = await stage.store.list_memberships("ml")
    assert (alices.limits, bobs.limits) == (Limits(max_gpus=2), Limits())
    assert [each.name for each in await stage.store.list_projects(visible_to=None)] == ["ml"]


async def test_slurms_names_are_imported_once_whatever_their_capitals(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    names, account = ("a.lovelace", "Bob", "bob"), "2024.phys"
    stage.accounting.now = Associations(
        cluster="dev",
        accounts=(Association(account="root"), Association(account=account, parent="root")),
        members=tuple(Association(account=account, user=name) for name in names),
        users=tuple(SlurmUser(name=name, default_account=account) for name in names),
    )
    await importing(stage).run()
    found = {user.name: user.default_project for user in (await stage.store.list_users()).items}
    assert found == {"a.lovelace": account, "Bob": account}
    assert "Slurm user bob is not imported" in caplog.text


async def test_repeated_import_keeps_local_changes(stage: Stage) -> None:
    stage.accounting.now = held()
    await importing(stage).run()
    await stage.store.set_limits("ml", Limits(), actor="root")
    await stage.store.save_member("ml", "alice", limits=Limits(), actor="root")
    await stage.store.update_user("bob", disabled=True)
    await stage.add_user("zoe", project="ml")
    before = await stage.store.get_last_event_id()
    await importing(stage).run()
    assert await stage.store.get_last_event_id() == before
    assert await stage.store.get_limits("ml") == Limits()
    assert (await stage.store.get_user("bob")).disabled
    stage.accounting.now = Associations(cluster="dev")
    await importing(stage).run()
    assert len(await stage.store.list_memberships("ml")) == 3


async def test_a_database_that_is_down_keeps_no_platform_from_starting(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.accounting.down = True
    await importing(stage).run()
    assert "No user was imported from Slurm" in caplog.text
    assert (await stage.store.list_users()).total == 0


async def test_limits_that_the_scheduler_cannot_hold_are_refused(stage: Stage) -> None:
    tokens = await people(stage)
    support = LimitSupport(get_scheduler_capabilities("local"), LimitsApplied.AT_ONCE)
    for applied, body, text in (
        (LimitsApplied.AT_ONCE, {"qos": ["long"]}, "the local scheduler has no QOS"),
        (LimitsApplied.NEVER, {"max_cpus": 1}, "the local scheduler holds no limits of projects"),
    ):
        stage.platform.projects.support = replace(support, applied=applied)
        async with stage.client(tokens["administrator"]) as client:
            for path, sent in (
                ("limits", body),
                ("limits/own", body),
                ("members/ada", {"limits": body}),
            ):
                answer = await client.put(f"/api/v1/projects/vision/{path}", json=sent)
                assert (answer.status_code, text in answer.text) == (422, True), path
            assert (await client.get("/api/v1/me")).json()["platform"]["limits_applied"] == applied
            cleared = await client.put("/api/v1/projects/vision/limits", json={})
            assert cleared.status_code == 200
