from __future__ import annotations

import pytest

from aitne.core.errors import Conflict, NotFound, StaleEpoch
from aitne.core.models.limits import (
    AssociationUse,
    Gauge,
    Limits,
    LimitUsage,
    Membership,
    ProjectLayers,
    QosUse,
)
from aitne.core.models.project import Project
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.contract.store.test_users import add, user
from tests.support.jobs import CREATED_AT

LIMITS = Limits(
    max_gpus=8, max_gpus_by_type={"1g.10gb": 2}, max_memory_bytes=1 << 34, qos=("a", "b")
)


def project(name: str = "vision", title: str = "") -> Project:
    return Project(name=name, title=title, created_at=CREATED_AT)


async def said(store: Store) -> list[tuple[str | None, str, str | None]]:
    events = [each for each in await store.list_events_after(0) if each.kind == "project.changed"]
    return [(each.project, each.data["what"], each.data.get("user")) for each in events]


async def test_a_projects_life(store: Store) -> None:
    await add(store, user("ada", "nlp"), user("bob", "nlp"))
    await store.create_project(project(), LIMITS, actor="root")
    with pytest.raises(Conflict, match="another name"):
        await store.create_project(project(), Limits(), actor="root")
    assert await store.get_limits("vision") == LIMITS
    assert await store.get_limits("nlp") == Limits()
    assert await store.list_limit_layers() == {"vision": ProjectLayers(granted=LIMITS)}
    await store.save_member("vision", "bob", limits=Limits(max_jobs=3), actor="root")
    await store.save_member("vision", "ada", actor="root")
    found = await store.get_project("vision")
    assert found.members == ("ada", "bob")
    assert await store.list_memberships("vision") == [
        Membership(project="vision", user="ada"),
        Membership(project="vision", user="bob", limits=Limits(max_jobs=3)),
    ]
    assert len(await store.list_memberships()) == 4
    assert set(await store.list_user_roles("bob")) == {"nlp", "vision"}
    await store.remove_member("vision", "bob", actor="root")
    await store.save_member("vision", "bob", actor="root")
    assert (await store.list_memberships("vision"))[1].limits == Limits()
    assert await said(store) == [
        ("vision", "created", None),
        ("vision", "member added", "bob"),
        ("vision", "limits", "bob"),
        ("vision", "member added", "ada"),
        ("vision", "member removed", "bob"),
        ("vision", "member added", "bob"),
    ]


async def test_unchanged_limits_and_members_create_no_event(store: Store) -> None:
    await add(store, user("ada", "vision"))
    for _ in range(2):
        await store.set_limits("vision", LIMITS, actor="root")
        await store.save_member("vision", "ada", limits=Limits(), default=True, actor="root")
    assert await said(store) == [("vision", "limits", None)]
    await store.set_limits("vision", Limits(), actor="root")
    assert await store.get_limits("vision") == Limits()


async def test_a_default_project_is_not_left(store: Store) -> None:
    await add(store, user("ada", "vision"), user("bob", "nlp"))
    with pytest.raises(Conflict, match="default project of ada"):
        await store.remove_member("vision", "ada", actor="root")
    assert set(await store.list_user_roles("ada")) == {"vision"}
    await store.save_member("nlp", "ada", default=True, actor="root")
    assert (await store.get_user("ada")).default_project == "nlp"
    await store.remove_member("vision", "ada", actor="root")


async def test_missing_project_or_member_is_not_found(store: Store) -> None:
    await add(store, user("ada", "vision"))
    with pytest.raises(NotFound):
        await store.get_project("nlp")
    with pytest.raises(NotFound):
        await store.set_limits("nlp", Limits(), actor="root")
    with pytest.raises(NotFound):
        await store.save_member("nlp", "ada", actor="root")
    with pytest.raises(NotFound):
        await store.save_member("vision", "nobody", actor="root")
    with pytest.raises(NotFound):
        await store.remove_member("vision", "nobody", actor="root")


async def test_the_last_look_at_what_is_in_use(store: Store, clock: Clock) -> None:
    assert await store.find_limit_usage() is None
    lease = await store.acquire_lease("controller", "me", duration_s=60)
    assert lease is not None
    look = LimitUsage(
        enforced=frozenset({"limits"}),
        associations=(
            AssociationUse(account="vision", tres={"gres/gpu": Gauge(limit=8, used=6)}),
            AssociationUse(account="vision", user="ada", max_jobs=Gauge(limit=None, used=2)),
        ),
        qos=(QosUse(name="normal", used_by={"ada": {"cpu": 2}}),),
    )
    for seconds, each in ((0, LimitUsage()), (10, look)):
        now = clock.pass_(seconds)
        await store.save_limit_usage(each, now, epoch=lease.epoch)
        assert await store.find_limit_usage() == (each, now)
    with pytest.raises(StaleEpoch):
        await store.save_limit_usage(LimitUsage(), clock.now, epoch=lease.epoch + 1)
