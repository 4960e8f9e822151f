"""The life of projects: managers, invitations and usage."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import update

from aitne.core.errors import Conflict, IllegalTransition, NotFound, StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.limits import Limits, Usage
from aitne.core.models.notification import NotificationChoices, NotificationKind
from aitne.core.models.project import (
    Budget,
    ExtensionRequest,
    Invitation,
    Project,
    ProjectRole,
    ProjectState,
    Retention,
    Step,
)
from aitne.core.models.resources import GpuRequest
from aitne.core.ports.accounting import JobEnergy
from aitne.store import Store, notification_and_activity_tables, tables
from aitne.store.project_life_cycle import ProjectChange
from aitne.store.usage import StoredMonth
from tests.contract.store.conftest import Clock
from tests.contract.store.test_users import add, user
from tests.support.jobs import CREATED_AT, make_job

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MANAGER, MEMBER = ProjectRole.MANAGER, ProjectRole.MEMBER


def requested(name: str = "vision", **fields: object) -> Project:
    return Project(
        name=name,
        title="Vision",
        created_at=CREATED_AT,
        state=ProjectState.REQUESTED,
        requested_by="ada",
        **fields,
    )


async def people(store: Store) -> None:
    await add(store, user("ada", "ada"), user("bob", "bob"), user("eve", "eve"))


async def active(store: Store) -> None:
    """Create the project vision with ada as its manager and bob as a member."""
    await people(store)
    await store.request_project(requested(), actor="ada")
    await store.apply_project_step("vision", Step.APPROVE, actor="root")
    await store.save_member("vision", "bob", actor="ada")


async def kinds(store: Store) -> list[tuple[str, str | None, object]]:
    """Return the project events so far, as kind, owner and subject."""
    return [
        (each.kind, each.owner, each.data.get("what"))
        for each in await store.list_events_after(0)
        if each.kind.startswith("project.")
    ]


async def test_a_request_has_its_asker_as_manager(store: Store) -> None:
    await people(store)
    wish = requested(note="A grant", description="Cameras", expires_at=NOW)
    await store.request_project(wish, actor="ada")
    found = await store.get_project("vision")
    assert found == wish.model_copy(update={"members": ("ada",), "managers": ("ada",)})
    assert await store.list_user_roles("ada") == {"ada": MEMBER, "vision": MANAGER}
    listed = await store.list_projects(visible_to="ada")
    assert found in listed
    assert ("project.requested", "ada", None) in await kinds(store)
    with pytest.raises(Conflict, match="already"):
        await store.request_project(requested(), actor="bob")


async def test_a_step_changes_the_state_and_what_goes_with_it(store: Store) -> None:
    await people(store)
    await store.request_project(requested(), actor="ada")
    budget = Budget(gpu_hours=100, period="total", since="2026-03")
    made = await store.apply_project_step(
        "vision",
        Step.APPROVE,
        actor="root",
        fields={"budget": budget, "expires_at": NOW},
        limits=Limits(max_gpus=4),
    )
    assert (made.state, made.budget, made.expires_at) == (ProjectState.ACTIVE, budget, NOW)
    assert await store.get_limits("vision") == Limits(max_gpus=4)
    standing = await store.find_project_status("vision")
    assert standing is not None
    assert (standing.state, standing.budget) == (ProjectState.ACTIVE, budget)
    assert await store.find_project_status("nothing") is None
    with pytest.raises(IllegalTransition, match="approve is for a project that is requested"):
        await store.apply_project_step("vision", Step.APPROVE, actor="root")
    with pytest.raises(NotFound):
        await store.apply_project_step("nothing", Step.CLOSE, actor="root")
    last = (await store.list_events_after(0))[-1]
    assert (last.data["what"], last.data["state"], last.owner) == ("approve", "active", "root")


async def test_a_change_that_changes_nothing_says_nothing(store: Store) -> None:
    await active(store)
    before = await store.get_last_event_id()
    same = ProjectChange("title", {"title": "Vision"})
    await store.update_project("vision", same, actor="ada")
    assert await store.get_last_event_id() == before
    other = ProjectChange("budget", {"budget": Budget(cpu_hours=5)})
    changed = await store.update_project("vision", other, actor="root")
    assert changed.budget == Budget(cpu_hours=5)
    assert await store.get_last_event_id() > before
    gone = await store.update_project(
        "vision", ProjectChange("budget", {"budget": None}), actor="root"
    )
    assert gone.budget is None


async def test_a_wish_for_time_waits_until_it_is_answered(store: Store) -> None:
    await active(store)
    wish = ExtensionRequest(until=NOW, reason="A paper", by="ada", at=CREATED_AT)
    assert (await store.request_project_extension("vision", wish)).extension == wish
    assert ("project.requested", "ada", "extension") in await kinds(store)
    given = {"expires_at": NOW, "extension": None}
    renewed = await store.apply_project_step("vision", Step.RENEW, actor="root", fields=given)
    assert (renewed.extension, renewed.expires_at) == (None, NOW)


async def test_an_end_is_reminded_of_once_at_each_step(store: Store) -> None:
    await active(store)
    lease = await store.acquire_lease("controller", "test", duration_s=60)
    assert lease is not None
    end = {"expires_at": NOW}
    await store.apply_project_step("vision", Step.RENEW, actor="root", fields=end)
    told = [
        await store.record_project_reminder("vision", NOW, days, epoch=lease.epoch)
        for days in (30, 30, 7, 30)
    ]
    assert told == [True, False, True, False]
    assert not await store.record_project_reminder(
        "vision", NOW + timedelta(1), 1, epoch=lease.epoch
    )
    later = {"expires_at": NOW + timedelta(365)}
    await store.apply_project_step("vision", Step.RENEW, actor="root", fields=later)
    assert await store.record_project_reminder(
        "vision", NOW + timedelta(365), 30, epoch=lease.epoch
    )
    said = [each for each in await store.list_events_after(0) if each.kind == "project.expiring"]
    assert [(each.project, each.data["days"]) for each in said] == [
        ("vision", 30),
        ("vision", 7),
        ("vision", 30),
    ]
    with pytest.raises(StaleEpoch):
        await store.record_project_reminder(
            "vision", NOW + timedelta(365), 7, epoch=lease.epoch + 1
        )


async def test_projects_that_expire_soon_are_listed(store: Store) -> None:
    await active(store)
    end = {"expires_at": NOW}
    await store.apply_project_step("vision", Step.RENEW, actor="root", fields=end)
    assert [p.name for p in await store.list_ending_projects(NOW + timedelta(1))] == ["vision"]
    assert await store.list_ending_projects(NOW - timedelta(1)) == []
    left = await store.apply_project_step(
        "vision", Step.EXPIRE, actor="platform", due=NOW - timedelta(1)
    )
    assert left.state is ProjectState.ACTIVE, "its end was moved meanwhile"
    ended = await store.apply_project_step("vision", Step.EXPIRE, actor="platform", due=NOW)
    assert ended.state is ProjectState.EXPIRED
    assert await store.list_ending_projects(NOW + timedelta(1)) == []


async def test_project_keeps_at_least_one_manager(store: Store) -> None:
    await active(store)
    with pytest.raises(Conflict, match="only manager"):
        await store.set_member_role("vision", "ada", MEMBER, actor="ada")
    with pytest.raises(Conflict, match="only manager"):
        await store.remove_member("vision", "ada", actor="ada")
    promoted = await store.set_member_role("vision", "bob", MANAGER, actor="ada")
    assert promoted.role is MANAGER
    assert (await store.get_project("vision")).managers == ("ada", "bob")
    await store.remove_member("vision", "ada", actor="ada")
    assert [(m.user, m.role) for m in await store.list_memberships("vision")] == [("bob", MANAGER)]
    await store.remove_member("vision", "bob", actor="bob")
    assert await store.list_memberships("vision") == []
    with pytest.raises(NotFound):
        await store.set_member_role("vision", "eve", MANAGER, actor="root")


async def test_added_member_gets_invitation_event(store: Store) -> None:
    await active(store)
    said = [each for each in await store.list_events_after(0) if each.kind == "project.invited"]
    assert [(e.owner, e.project, e.data["actor"]) for e in said] == [("bob", "vision", "ada")]


async def test_managers_limits_stand_beside_the_granted_ones(store: Store) -> None:
    await active(store)
    await store.set_limits("vision", Limits(max_gpus=8), actor="root")
    await store.set_own_limits("vision", Limits(max_gpus=4), actor="ada")
    assert await store.get_limits("vision") == Limits(max_gpus=8)
    assert await store.get_own_limits("vision") == Limits(max_gpus=4)
    assert [m.user for m in await store.list_memberships("vision")] == ["ada", "bob"]
    with pytest.raises(NotFound):
        await store.set_own_limits("nothing", Limits(), actor="ada")


async def test_fields_that_a_later_release_has_stored_are_ignored(store: Store) -> None:
    await active(store)
    await store.set_limits("vision", Limits(max_gpus=8), actor="root")
    await store.set_own_limits("vision", Limits(max_gpus=4), actor="ada")
    later = {"of_a_later_release": {"any": "value"}}
    budget, retention = Budget(gpu_hours=10), Retention(keep_jobs=86_400)
    values = {
        "budget": budget.model_dump(mode="json") | later,
        "retention": retention.model_dump(mode="json") | later,
    }
    choices = NotificationChoices(choices={NotificationKind.SESSION_READY: {"mail": True}})
    document = choices.model_dump(mode="json") | later
    document["choices"]["kind_of_a_later_release"] = {"mail": True}
    await store.save_notification_choices("ada", choices)
    async with store._db.raw_write() as connection:
        await connection.execute(update(tables.projects).values(values))
        await connection.execute(update(tables.limits).values(data={"max_gpus": 4} | later))
        await connection.execute(
            update(notification_and_activity_tables.notification_settings).values(data=document)
        )

    project = await store.get_project("vision")
    assert (project.budget, project.retention) == (budget, retention)
    assert (
        await store.get_limits("vision")
        == await store.get_own_limits("vision")
        == Limits(max_gpus=4)
    )
    assert await store.get_notification_choices("ada") == choices


def invitation(id_: str = "i1", **fields: object) -> Invitation:
    given = {
        "id": id_,
        "project": "vision",
        "role": MEMBER,
        "created_by": "ada",
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=7),
        "uses": 0,
        "max_uses": 1,
    }
    return Invitation.model_validate({**given, **fields})


async def test_an_invitation_lets_as_many_in_as_it_says(store: Store) -> None:
    await active(store)
    await store.create_invitation(invitation(), "h1")
    assert await store.find_invitation("h1") == invitation()
    assert await store.find_invitation("h2") is None
    joined = await store.accept_invitation("h1", "eve", NOW)
    assert (joined.project, joined.user, joined.role) == ("vision", "eve", MEMBER)
    again = await store.accept_invitation("h1", "eve", NOW)
    assert again == joined, "who is in stays in"
    await add(store, user("zoe", "zoe"))
    with pytest.raises(Conflict, match="no longer valid"):
        await store.accept_invitation("h1", "zoe", NOW)
    with pytest.raises(NotFound):
        await store.accept_invitation("h2", "zoe", NOW)
    assert [each.uses for each in await store.list_invitations("vision")] == [1]


async def test_two_at_once_do_not_both_take_the_last_place(store: Store) -> None:
    await active(store)
    await add(store, user("zoe", "zoe"))
    await store.create_invitation(invitation(), "h1")
    ends = await asyncio.gather(
        *(store.accept_invitation("h1", name, NOW) for name in ("eve", "zoe")),
        return_exceptions=True,
    )
    assert [isinstance(each, Conflict) for each in ends].count(True) == 1
    assert len(await store.list_memberships("vision")) == 3


async def test_an_invitation_makes_a_member_a_manager(store: Store) -> None:
    await active(store)
    await store.create_invitation(invitation(role=MANAGER), "h1")
    assert (await store.accept_invitation("h1", "bob", NOW)).role is MANAGER
    assert (await store.accept_invitation("h1", "ada", NOW)).role is MANAGER
    assert [each.uses for each in await store.list_invitations("vision")] == [1]


async def test_an_invitation_ends(store: Store) -> None:
    await active(store)
    await store.create_invitation(invitation("i1", expires_at=NOW), "h1")
    await store.create_invitation(invitation("i2"), "h2")
    await store.create_invitation(invitation("i3", created_by="bob"), "h3")
    with pytest.raises(Conflict):
        await store.accept_invitation("h1", "eve", NOW)
    for _ in range(2):
        await store.revoke_invitation("vision", "i2", NOW, actor="ada")
    with pytest.raises(Conflict):
        await store.accept_invitation("h2", "eve", NOW)
    with pytest.raises(NotFound):
        await store.revoke_invitation("ada", "i2", NOW, actor="ada")
    await store.remove_member("vision", "bob", actor="ada")
    with pytest.raises(Conflict):
        await store.accept_invitation("h3", "eve", NOW)
    await store.create_invitation(invitation("i4"), "h4")
    await store.apply_project_step("vision", Step.CLOSE, actor="ada")
    with pytest.raises(Conflict, match="is closed"):
        await store.accept_invitation("h4", "eve", NOW)
    assert [m.user for m in await store.list_memberships("vision")] == ["ada"]


async def test_a_months_usage_is_kept(store: Store) -> None:
    rows = [Usage(account="vision", user="ada", cpu_s=7, gpu_s=9, gpu_s_by_type={"a": 9}, jobs=1)]
    await store.save_month_usage("2026-03", StoredMonth(NOW, "platform", []))
    await store.save_month_usage("2026-03", StoredMonth(NOW, "scheduler", rows))
    assert await store.list_usage_months(["2026-02", "2026-03"]) == {
        "2026-03": StoredMonth(NOW, "scheduler", rows)
    }


async def test_times_waits_and_outcomes_of_jobs(store: Store, clock: Clock) -> None:
    march, april = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
    spec = make_job(project="vision").spec
    wish = spec.resources.model_copy(
        update={"nodes": 2, "cpu": 4, "gpu": GpuRequest(count=3, type="h200")}
    )
    spec = spec.model_copy(update={"resources": wish})

    def ran(state: JobState, began: datetime | None, ended: datetime | None) -> dict[str, object]:
        asked = None if began is None else began - timedelta(minutes=10)
        return {
            "id": uuid4(),
            "state": state,
            "spec": spec,
            "submitted_at": asked,
            "allocated_at": began,
            "ended_at": ended,
        }

    hour = timedelta(hours=1)
    jobs = [
        ran(JobState.COMPLETED, march - hour, march + hour),
        ran(JobState.FAILED, NOW, NOW + hour),
        ran(JobState.RUNNING, NOW, None),
        ran(JobState.QUEUED, None, None),
        ran(JobState.COMPLETED, march - 2 * hour, march - hour),
        ran(JobState.COMPLETED, april, april + hour),
    ]
    for each in jobs:
        await store.create_job(make_job(project="vision").model_copy(update=each))
    found = await store.list_job_times(march, april)
    assert sorted((each.started_at, each.ended_at) for each in found if each.ended_at) == [
        (march - hour, march + hour),
        (NOW, NOW + hour),
    ]
    assert {(t.project, t.nodes, t.cpus, t.gpus, t.gpu_type) for t in found} == {
        ("vision", 2, 4, 3, "h200")
    }
    assert len([each for each in found if each.ended_at is None]) == 1
    waits = await store.list_wait_times("vision", march, april)
    assert [each.seconds for each in waits] == [600.0, 600.0]
    assert await store.count_ended_jobs("vision", march, april) == {"COMPLETED": 1, "FAILED": 1}
    assert await store.count_ended_jobs("speech", march, april) == {}


async def test_energy_is_stored_for_the_run_that_ended_then(store: Store, epoch: int) -> None:
    ended = {
        "ended": (JobState.COMPLETED, "7", NOW),
        "of an array": (JobState.FAILED, "8_3", NOW),
        "earlier use of the ID": (JobState.COMPLETED, "7", NOW - timedelta(days=2)),
        "running": (JobState.RUNNING, "9", None),
    }
    jobs = {}
    for name, (state, scheduler_id, ended_at) in ended.items():
        values = {"state": state, "scheduler_id": scheduler_id, "ended_at": ended_at}
        created = await store.create_job(make_job().model_copy(update=values))
        jobs[name] = created.job
    found = [
        JobEnergy(scheduler_id=number, ended_at=NOW + timedelta(seconds=20), energy_j=energy_j)
        for number, energy_j in (("7", 500), ("8_3", 3 << 32), ("9", 1), ("10", 1))
    ]
    for _ in range(2):  # the second call changes nothing
        await store.save_energy(found, epoch=epoch)
    stored = {name: await store.get_job(job.id) for name, job in jobs.items()}
    assert {name: job.energy_j for name, job in stored.items()} == {
        "ended": 500,
        "of an array": 3 << 32,
        "earlier use of the ID": None,
        "running": None,
    }
    assert stored["ended"].version == jobs["ended"].version + 1
    with pytest.raises(StaleEpoch):
        await store.save_energy(found, epoch=epoch - 1)
