"""The life of projects over HTTP: requests, managers, invitations, ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aitne.core.models.access_token import Scope
from aitne.core.models.limits import AssociationUse, Limits, LimitUsage
from aitne.core.models.project import ProjectRole, Step
from aitne.core.models.user import Role
from aitne.core.projects.settings import ProjectSettings
from aitne.services.projects.project_life_cycle import ProjectLife
from tests.support.project_stage import API, ada_leads, ok, watch
from tests.support.stage import Stage

JOB = {"name": "train", "project": "vision", "commands": ["true"]}


async def said(stage: Stage, kind: str) -> list[Mapping[str, Any]]:
    return [each.data for each in await stage.store.list_events_after(0) if each.kind == kind]


async def actor(stage: Stage, name: str) -> Any:
    """Return the actor of a known user, with the roles that a login finds."""
    made = stage.actor(name)
    roles = await stage.store.list_user_roles(name)
    manages = frozenset(each for each, role in roles.items() if role is ProjectRole.MANAGER)
    return made.model_copy(update={"projects": frozenset(roles), "manages": manages})


async def test_a_request_is_approved_with_what_it_gets(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada"))
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    wish = {"name": "vision", "title": "V", "description": "D", "reason": "A grant"}
    async with stage.client(ada) as client:
        made = await ok(client.post(f"{API}/projects", json=wish), 201)
        assert (made["state"], made["managers"], made["note"]) == ("requested", ["ada"], "A grant")
        job = await client.post(f"{API}/jobs", json=JOB)
        assert "waits for an administrator" in job.json()["problems"][0]["message"]
        added = await client.put(f"{API}/projects/vision/members/root", json={})
        assert added.status_code == 409
    async with stage.client(root) as client:
        [waiting] = (await ok(client.get(f"{API}/projects?state=requested")))["items"]
        assert waiting["name"] == "vision"
        grant = {
            "expires_at": "2026-12-01T00:00:00Z",
            "budget": {"gpu_hours": 100, "period": "total"},
            "limits": {"max_gpus": 4},
        }
        made = await ok(client.post(f"{API}/projects/vision/approve", json=grant))
        assert made["budget"]["since"] == "2026-03"
        assert (made["state"], made["note"]) == ("active", None)
        again = await client.post(f"{API}/projects/vision/approve", json={})
        assert (again.status_code, again.json()["code"]) == (409, "illegal_transition")
    assert await stage.store.get_limits("vision") == Limits(max_gpus=4)
    assert await said(stage, "project.requested") == [
        {"actor": "ada", "title": "V", "reason": "A grant"}
    ]


async def test_a_declined_request_is_reopened_by_nobody_but_an_administrator(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada"))
    root = await stage.token(await stage.add_user("root", Role.ADMIN))
    async with stage.client(ada) as mine, stage.client(root) as theirs:
        await ok(mine.post(f"{API}/projects", json={"name": "vision"}), 201)
        refused = await ok(theirs.post(f"{API}/projects/vision/decline", json={"reason": "No."}))
        assert (refused["state"], refused["note"]) == ("closed", "No.")
        assert (await mine.post(f"{API}/projects/vision/reopen")).status_code == 403
        assert (await ok(theirs.post(f"{API}/projects/vision/reopen")))["state"] == "active"


@pytest.mark.parametrize(
    ("creation", "status", "state"),
    [("admins", 403, None), ("approval", 201, "requested"), ("anyone", 201, "active")],
)
async def test_project_creation_follows_setting(
    stage: Stage, creation: Any, status: int, state: str | None
) -> None:
    ada = await stage.add_user("ada")
    token = await stage.token(ada)
    life = ProjectLife(
        stage.store,
        ProjectSettings(creation=creation),
        stage.platform.projects.support,
        stage.clock,
    )
    object.__setattr__(stage.platform, "project_life", life)
    async with stage.client(token) as client:
        made = await client.post(f"{API}/projects", json={"name": "vision"})
        assert made.status_code == status
        assert made.json().get("state") == state
        if creation == "anyone":
            more = {"name": "speech", "budget": {"gpu_hours": 1}}
            assert (await client.post(f"{API}/projects", json=more)).status_code == 403


async def test_project_requests_of_one_user_are_limited(stage: Stage) -> None:
    ada = await stage.token(await stage.add_user("ada"))
    async with stage.client(ada) as client:
        for number in range(5):
            await ok(client.post(f"{API}/projects", json={"name": f"p{number}"}), 201)
        assert (await client.post(f"{API}/projects", json={"name": "p5"})).status_code == 409


async def test_a_closed_project_keeps_what_runs_and_takes_nothing_new(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    async with stage.client(ada) as client:
        job = await ok(client.post(f"{API}/jobs", json=JOB), 201)
        closing = {"reason": "The grant is over."}
        await ok(client.post(f"{API}/projects/vision/close", json=closing))
        for path in ("jobs", "jobs:plan"):
            refused = await client.post(f"{API}/{path}", json=JOB)
            assert refused.status_code == 422
            assert "closed: The grant is over;" in refused.json()["problems"][0]["message"]
        kept = await ok(client.get(f"{API}/jobs/{job['id']}"))
        assert (kept["state"], kept["cancel_requested"]) == ("PENDING_SUBMIT", False)
        report = await stage.platform.sync.compare(stage.actor("root", Role.ADMIN))
        held = [d for d in report.differences if d.field == "waiting and running jobs"]
        assert [(d.project, d.platform) for d in held] == [("vision", "0")]
        await ok(client.post(f"{API}/projects/vision/reopen"))
        await ok(client.post(f"{API}/jobs", json=JOB), 201)
    async with stage.client(root) as client:
        await ok(client.post(f"{API}/projects/vision/close", json={}))
    async with stage.client(ada) as client:
        assert (await client.post(f"{API}/projects/vision/reopen")).status_code == 403


async def test_an_end_is_told_in_time_and_comes(stage: Stage) -> None:
    _, root = await ada_leads(stage)
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e9)
    assert lease is not None
    ends = stage.clock.now + timedelta(days=40)
    async with stage.client(root) as client:
        await ok(client.put(f"{API}/projects/vision/end", json={"expires_at": ends.isoformat()}))
    told = []
    looks = watch(stage, lease.epoch)
    for days in (39, 30, 29, 8, 7, 3, 1, 0.5):
        stage.clock.now = ends - timedelta(days=days)
        await looks.check_projects()
        # Another leader that begins anew says nothing twice.
        await watch(stage, lease.epoch).check_projects()
        told.append([each["days"] for each in await said(stage, "project.expiring")])
    assert told == [[], [30], [30], [30], [30, 7], [30, 7], [30, 7, 1], [30, 7, 1]]
    stage.clock.now = ends
    async with stage.client(await stage.token(await actor(stage, "ada"))) as client:
        refused = await client.post(f"{API}/jobs", json=JOB)
        assert "expired on 2026-04-10" in refused.json()["problems"][0]["message"]
        await looks.check_projects()
        await looks.check_projects()
        assert (await ok(client.get(f"{API}/projects/vision")))["state"] == "expired"
    steps = [each["what"] for each in await said(stage, "project.changed")]
    assert steps.count("expire") == 1


async def test_more_time_is_asked_for_and_given(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    async with stage.client(ada) as mine, stage.client(root) as theirs:
        later = {"until": "2026-12-01T00:00:00Z", "reason": "A paper"}
        endless = await mine.post(f"{API}/projects/vision/extension", json=later)
        assert endless.status_code == 422
        await ok(
            theirs.put(f"{API}/projects/vision/end", json={"expires_at": "2026-06-01T00:00:00Z"})
        )
        asked = await ok(mine.post(f"{API}/projects/vision/extension", json=later))
        assert (asked["extension"]["by"], asked["expires_at"]) == ("ada", "2026-06-01T00:00:00Z")
        refused = await ok(theirs.post(f"{API}/projects/vision/decline", json={"reason": "No"}))
        assert (refused["extension"], refused["state"]) == (None, "active")
        await ok(mine.post(f"{API}/projects/vision/extension", json=later))
        stage.clock.now = datetime(2026, 7, 1, tzinfo=UTC)
        await stage.store.apply_project_step("vision", Step.EXPIRE, actor="platform")
        past = {"expires_at": "2026-06-30T00:00:00Z"}
        assert (await theirs.put(f"{API}/projects/vision/end", json=past)).status_code == 422
        given = {"expires_at": later["until"]}
        renewed = await ok(theirs.put(f"{API}/projects/vision/end", json=given))
        assert (renewed["state"], renewed["extension"]) == ("active", None)


async def test_two_people_do_not_undo_each_others_work(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    async with stage.client(ada) as mine, stage.client(root) as theirs:
        seen = (await mine.get(f"{API}/projects/vision")).headers["etag"]
        await ok(theirs.patch(f"{API}/projects/vision", json={"title": "Theirs"}))
        stale = await mine.patch(
            f"{API}/projects/vision", json={"title": "Mine"}, headers={"If-Match": seen}
        )
        assert stale.status_code == 412
        found = await mine.get(f"{API}/projects/vision")
        assert found.json()["title"] == "Theirs"
        limits = (await theirs.get(f"{API}/projects/vision/limits")).headers["etag"]
        await ok(theirs.put(f"{API}/projects/vision/limits", json={"max_gpus": 8}))
        stale = await theirs.put(
            f"{API}/projects/vision/limits", json={"max_gpus": 9}, headers={"If-Match": limits}
        )
        assert stale.status_code == 412


async def test_an_invitation_from_the_link_to_the_membership(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    eve = await stage.token(await stage.add_user("eve"))
    async with stage.client(ada) as client:
        wish = {"role": "manager", "max_uses": 2, "lifetime": "2d"}
        made = await ok(client.post(f"{API}/projects/vision/invitations", json=wish), 201)
        start, secret = made["url"].split("#")
        assert start == f"{stage.settings.portal_url}/invite"
    async with stage.client() as nobody:
        seen = await ok(nobody.post(f"{API}/invitations/preview", json={"token": secret}))
        assert (seen["project"], seen["invited_by"], seen["role"]) == ("vision", "ada", "manager")
        assert seen["open"]
        join = await nobody.post(f"{API}/invitations/accept", json={"token": secret})
        assert join.status_code == 401
        assert (
            await nobody.post(f"{API}/invitations/preview", json={"token": secret[:-1]})
        ).status_code == 404
    async with stage.client(eve) as client:
        assert (await client.get(f"{API}/projects/vision")).status_code == 404
        await ok(client.post(f"{API}/invitations/accept", json={"token": secret}))
        assert (await ok(client.get(f"{API}/projects/vision")))["managers"] == ["ada", "eve"]
        # At once, by the same token: what one may do is looked up anew.
        await ok(client.patch(f"{API}/projects/vision", json={"title": "Eve's"}))
    async with stage.client(ada) as client:
        [kept] = (await ok(client.get(f"{API}/projects/vision/invitations")))["items"]
        assert (kept["uses"], kept["max_uses"]) == (1, 2)
        assert secret not in str(kept)
        await ok(client.delete(f"{API}/projects/vision/invitations/{kept['id']}"), 204)
    async with stage.client() as nobody:
        seen = await ok(nobody.post(f"{API}/invitations/preview", json={"token": secret}))
        assert (seen["open"], seen["closed_reason"]) == (False, "It was revoked.")
    events = [each.model_dump_json() for each in await stage.store.list_events_after(0)]
    assert not [each for each in events if secret in each]


async def test_a_token_that_only_reads_joins_nothing(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    eve = await stage.add_user("eve")
    reader = await stage.token(eve, Scope.READ)
    async with stage.client(ada) as client:
        made = await ok(client.post(f"{API}/projects/vision/invitations", json={}), 201)
    async with stage.client(reader) as client:
        token = {"token": made["url"].split("#")[1]}
        assert (await client.post(f"{API}/invitations/accept", json=token)).status_code == 403


async def test_members_leave_and_managers_are_made(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    bob = await stage.token(await actor(stage, "bob"))
    async with stage.client(ada) as mine, stage.client(bob) as theirs:
        assert (await mine.delete(f"{API}/projects/vision/members/ada")).status_code == 409
        made = await ok(mine.put(f"{API}/projects/vision/members/bob", json={"role": "manager"}))
        assert (made["role"], made["in_slurm"]) == ("manager", None)
        await ok(theirs.delete(f"{API}/projects/vision/members/ada"), 204)
        assert (await mine.get(f"{API}/projects/vision")).status_code == 404
        await ok(theirs.delete(f"{API}/projects/vision/members/bob"), 204)


async def test_a_manager_holds_the_project_within_what_was_granted(stage: Stage) -> None:
    ada, root = await ada_leads(stage)
    async with stage.client(root) as client:
        granted = {"max_gpus": 8, "max_wall_s": "1d", "qos": ["normal"]}
        await ok(client.put(f"{API}/projects/vision/limits", json=granted))
    async with stage.client(ada) as client:
        own = f"{API}/projects/vision/limits/own"
        found = await ok(client.put(own, json={"max_gpus": 4}))
        assert (found["limits"]["max_gpus"], found["granted"]["max_gpus"]) == (4, 8)
        assert found["own"]["max_gpus"] == 4
        for more in ({"max_gpus": 9}, {"max_wall_s": "2d"}, {"qos": ["long"]}):
            [name] = more
            refused = await client.put(own, json=more)
            assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, name)
            member = await client.put(f"{API}/projects/vision/members/bob", json={"limits": more})
            assert member.json()["problems"][0]["field"] == f"limits.{name}"
        await ok(client.put(f"{API}/projects/vision/members/bob", json={"limits": {"max_gpus": 2}}))
    report = await stage.platform.sync.compare(stage.actor("root", Role.ADMIN))
    gpus = {
        (d.project, d.user): d.platform for d in report.differences if d.field == "GPUs at once"
    }
    assert gpus == {("vision", None): "4", ("vision", "bob"): "2"}


async def test_a_members_own_limit_never_outlives_a_lower_grant(stage: Stage) -> None:
    _, root = await ada_leads(stage)
    async with stage.client(root) as client:
        limits = f"{API}/projects/vision/limits"
        granted = {"max_gpus": 8, "max_wall_s": "2d", "qos": ["normal", "long"]}
        await ok(client.put(limits, json=granted))
        own = {"max_gpus": 6, "max_wall_s": "2d", "qos": ["long"], "max_jobs": 3}
        await ok(client.put(f"{API}/projects/vision/members/bob", json={"limits": own}))
        await ok(client.put(limits, json={"max_gpus": 4, "max_wall_s": "1d", "qos": ["normal"]}))
        found = (await ok(client.get(f"{API}/projects/vision/members")))["items"]
        [bob] = [each for each in found if each["user"] == "bob"]
        names = ("max_gpus", "max_wall_s", "qos", "max_jobs")
        assert [bob["limits"][name] for name in names] == [6, 172_800, ["long"], 3]
        assert [bob["effective"][name] for name in names] == [4, 86_400, ["normal"], 3]
        report = await stage.platform.sync.compare(stage.actor("root", Role.ADMIN))
        held = {each.field: each.platform for each in report.differences if each.user == "bob"}
        assert (held["GPUs at once"], held["time limit of a job"]) == ("4", "1d")
        assert (held["QOS"], held["running jobs"]) == ("normal", "3")
        await ok(client.put(limits, json=granted))
        [bob] = [
            each
            for each in (await ok(client.get(f"{API}/projects/vision/members")))["items"]
            if each["user"] == "bob"
        ]
        assert bob["effective"]["max_gpus"] == 6


async def test_the_page_knows_what_slurm_does_not_yet_know(stage: Stage) -> None:
    ada, _ = await ada_leads(stage)
    lease = await stage.store.acquire_lease("controller", "test", duration_s=60)
    assert lease is not None
    look = LimitUsage(
        enforced=frozenset({"associations"}),
        associations=(
            AssociationUse(account="vision"),
            AssociationUse(account="vision", user="ada"),
        ),
    )
    await stage.store.save_limit_usage(look, stage.clock.now, epoch=lease.epoch)
    async with stage.client(ada) as client:
        found = (await ok(client.get(f"{API}/projects/vision/members")))["items"]
    assert {each["user"]: each["in_slurm"] for each in found} == {"ada": True, "bob": False}


async def test_a_request_is_not_slurms_affair(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await stage.platform.project_life.create(ada, name="vision")
    report = await stage.platform.sync.compare(stage.actor("root", Role.ADMIN))
    assert "project vision: it waits for its approval" in report.unmanaged
    assert not [each for each in report.differences if each.project == "vision"]
