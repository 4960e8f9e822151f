from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.image import Image, ImageApp, ImageNeeds, ImageState, Package
from aitne.core.models.user import Actor, Role
from aitne.services.platform.event_hub import is_event_visible
from aitne.store import Store
from tests.contract.store.test_users import add, user
from tests.support.catalog import make_artifact, make_dataset, make_image
from tests.support.jobs import CREATED_AT, make_job

LATER = CREATED_AT + timedelta(hours=1)


async def people(store: Store) -> None:
    """Add ada in vision, bob in nlp, and carol in both."""
    await add(store, user("ada", "vision"), user("bob", "nlp"), user("carol", "vision"))
    await store.save_member("nlp", "carol", actor="root")


async def hears(store: Store, kind: str, name: str) -> list[tuple[str, str]]:
    """Return the distinct events of that kind that a user may see, as reference and change."""
    actor = Actor(user=user(name, "x"), projects=frozenset(await store.list_user_roles(name)))
    seen = [
        (f"{event.data['name']}:{event.data['version']}", event.data["what"])
        for event in await store.list_events_after(0)
        if event.kind == kind and is_event_visible(event, actor)
    ]
    return list(dict.fromkeys(seen))


async def test_an_image_comes_back_as_it_was_put(store: Store) -> None:
    await people(store)
    image = make_image(
        "torch",
        apps={"lab": ImageApp(python="/opt/jupyter/bin/python")},
        needs=ImageNeeds(cuda="12.6"),
        env={"OMP_NUM_THREADS": "1"},
        artifacts=(
            make_artifact(mtime_ns=1_700_000_000_123_456_789, size_bytes=9_000_000_000),
            make_artifact("docker", "b", path=None),
        ),
        projects=("nlp", "vision"),
    )
    assert await store.add_image(image, actor="root") == image
    assert await store.get_image("torch", "1.0") == image
    assert await store.list_images() == [image.model_copy(update={"packages": ()})]


async def test_images_are_listed_by_name_and_newest_first(store: Store) -> None:
    await store.add_image(make_image("zeta"), actor="root")
    for hours, version in enumerate(("1.9", "1.10", "1.2")):
        at = CREATED_AT + timedelta(hours=hours)
        await store.add_image(make_image("base", version, created_at=at), actor="root")
    found = [each.reference for each in await store.list_images()]
    assert found == ["base:1.2", "base:1.10", "base:1.9", "zeta:1.0"]


async def test_a_version_gets_further_artifacts_and_never_another_content(store: Store) -> None:
    await store.add_image(make_image(packages=()), actor="root")
    docker = make_artifact("docker", "b", path=None)
    bill = (Package(name="numpy", version="2.0", source="python"),)
    both = await store.add_image(
        make_image(artifacts=(docker,), packages=bill, description="another"), actor="root"
    )
    assert both.artifacts == (make_artifact(), docker)
    assert both.packages == bill
    assert both.description == make_image().description
    moved = make_artifact(path="/images/elsewhere.sif", mtime_ns=5)
    again = await store.add_image(make_image(artifacts=(moved,)), actor="root")
    assert again.artifacts == (moved, docker)
    with pytest.raises(Conflict, match="a version never changes"):
        await store.add_image(make_image(artifacts=(make_artifact(digit="c"),)), actor="root")
    assert await store.get_image("base", "1.0") == again


async def test_two_who_add_the_same_version_at_once(store: Store, other: Store) -> None:
    one = make_image()
    two = make_image(artifacts=(make_artifact("docker", "b", path=None),))
    three = make_image(artifacts=(make_artifact(digit="c"),))
    ends = await asyncio.gather(
        store.add_image(one, actor="root"),
        other.add_image(two, actor="root"),
        store.add_image(three, actor="root"),
        other.add_image(one, actor="root"),
        return_exceptions=True,
    )
    assert all(isinstance(end, Image | Conflict) for end in ends)
    found = await store.get_image("base", "1.0")
    assert [each.runtime for each in found.artifacts] == ["apptainer", "docker"]


async def test_image_state_damage_and_projects_can_be_changed(store: Store) -> None:
    await people(store)
    await store.add_image(make_image(), actor="root")
    damaged = await store.update_image(
        "base", "1.0", verified_at=LATER, damage="gone", actor="root"
    )
    assert (damaged.verified_at, damaged.damage, damaged.is_offered) == (LATER, "gone", False)
    well = await store.update_image("base", "1.0", verified_at=LATER, actor="root")
    assert (well.damage, well.is_offered) == (None, True)
    seen = await store.update_image("base", "1.0", projects={"nlp"}, actor="root")
    assert seen.projects == ("nlp",)
    retired = await store.update_image("base", "1.0", state=ImageState.RETIRED, actor="root")
    assert (retired.state, retired.projects) == (ImageState.RETIRED, ("nlp",))
    everybodys = await store.update_image("base", "1.0", projects=(), actor="root")
    assert everybodys.projects == ()
    assert await store.get_image("base", "1.0") == everybodys
    for wrong in ("nlp", "base"):
        with pytest.raises(NotFound):
            await store.update_image(wrong, "2.0", state=ImageState.OFFERED, actor="root")
    with pytest.raises(NotFound, match="audio"):
        await store.update_image("base", "1.0", projects={"nlp", "audio"}, actor="root")
    assert (await store.get_image("base", "1.0")).projects == ()


async def test_an_image_for_a_project_that_there_is_not_is_not_added(store: Store) -> None:
    with pytest.raises(NotFound, match="vision"):
        await store.add_image(make_image(projects=("vision",)), actor="root")
    assert await store.list_images() == []
    assert await store.list_events_after(0) == []


async def test_an_image_is_removed_when_nothing_uses_it(store: Store) -> None:
    await store.add_image(make_image(), actor="root")
    job = make_job()
    spec = job.spec.model_copy(update={"image": "base:1.0"})
    job = (await store.create_job(job.model_copy(update={"spec": spec}))).job
    with pytest.raises(Conflict, match="Retire it first"):
        await store.delete_image("base", "1.0", actor="root")
    await store.update_image("base", "1.0", state=ImageState.RETIRED, actor="root")
    with pytest.raises(Conflict, match=str(job.id)):
        await store.delete_image("base", "1.0", actor="root")
    await store.transition_job(job.id, JobState.CANCELLED)
    assert await store.delete_image("base", "1.0", actor="root") == (make_artifact(),)
    with pytest.raises(NotFound):
        await store.get_image("base", "1.0")
    with pytest.raises(NotFound):
        await store.delete_image("base", "1.0", actor="root")
    await store.add_image(make_image(artifacts=(make_artifact(digit="c"),)), actor="root")


async def test_of_images_hears_who_may_see_them(store: Store) -> None:
    await people(store)
    await store.add_image(make_image("open"), actor="root")
    await store.add_image(make_image("closed", projects=("nlp",)), actor="root")
    await store.update_image("closed", "1.0", state=ImageState.RETIRED, actor="root")
    await store.update_image("closed", "1.0", state=ImageState.RETIRED, actor="root")
    await store.update_image("closed", "1.0", projects={"vision"}, actor="root")
    await store.update_image("closed", "1.0", verified_at=LATER, actor="root")
    await store.update_image("open", "1.0", projects={"nlp"}, actor="root")
    await store.update_image("open", "1.0", verified_at=LATER, damage="gone", actor="root")
    everybody = [("open:1.0", "added")]
    assert await hears(store, "image.changed", "ada") == [
        *everybody,
        ("closed:1.0", "projects"),
        ("closed:1.0", "verified"),
        ("open:1.0", "projects"),
    ]
    assert await hears(store, "image.changed", "bob") == [
        *everybody,
        ("closed:1.0", "added"),
        ("closed:1.0", "retired"),
        ("closed:1.0", "projects"),
        ("open:1.0", "projects"),
        ("open:1.0", "damaged"),
    ]
    assert await hears(store, "image.changed", "dave") == [*everybody, ("open:1.0", "projects")]


async def test_a_datasets_life(store: Store) -> None:
    await people(store)
    one = make_dataset(projects=("vision",), description="d\0d", licence="CC0", files=3_000_000_000)
    await store.add_dataset(one, actor="ada")
    found = await store.get_dataset("div2k", "1.0")
    assert found == one.model_copy(update={"description": "d\ufffdd"})
    with pytest.raises(Conflict, match="another version"):
        await store.add_dataset(one, actor="ada")
    with pytest.raises(Conflict, match="another owner's"):
        await store.add_dataset(make_dataset(version="2.0", owner="bob"), actor="bob")
    granted = await store.update_dataset(
        "div2k", "1.0", grant=("nlp", "vision"), revoke=(), actor="ada"
    )
    assert granted.projects == ("nlp", "vision")
    assert (
        await store.update_dataset("div2k", "1.0", revoke=("vision",), actor="ada")
    ).projects == ("nlp",)
    damaged = await store.update_dataset(
        "div2k", "1.0", verified_at=LATER, verified_by="bob", damaged_files=2, actor="bob"
    )
    assert (damaged.verified_at, damaged.verified_by, damaged.damaged_files) == (LATER, "bob", 2)
    retired = await store.update_dataset("div2k", "1.0", retired=True, actor="ada")
    assert (retired.retired, retired.damaged_files, retired.projects) == (True, 2, ("nlp",))
    assert await store.get_dataset("div2k", "1.0") == retired
    for name, version in (("div2k", "2.0"), ("imagenet", "1.0")):
        with pytest.raises(NotFound):
            await store.update_dataset(name, version, retired=True, actor="ada")
        with pytest.raises(NotFound):
            await store.get_dataset(name, version)
    with pytest.raises(NotFound, match="audio"):
        await store.update_dataset("div2k", "1.0", grant=("audio",), actor="ada")
    assert await hears(store, "dataset.changed", "ada") == [
        ("div2k:1.0", what) for what in ("added", "projects", "damaged", "retired")
    ]


async def test_a_name_that_two_want_at_once_belongs_to_one_of_them(store: Store) -> None:
    await people(store)
    for name in ("one", "two", "three", "four", "five"):
        wanted = [
            make_dataset(name, version=owner, owner=owner) for owner in ("ada", "bob", "carol")
        ]
        ends = await asyncio.gather(
            *(store.add_dataset(each, actor=each.owner) for each in wanted), return_exceptions=True
        )
        assert sorted(type(end).__name__ for end in ends) == ["Conflict", "Conflict", "NoneType"]
    assert len({each.name for each in await store.list_datasets(visible_to=None)}) == 5


async def test_a_dataset_for_a_project_that_there_is_not_is_not_added(store: Store) -> None:
    with pytest.raises(NotFound, match="vision"):
        await store.add_dataset(make_dataset(projects=("vision",)), actor="ada")
    assert await store.list_datasets(visible_to=None) == []


async def test_the_newest_version_is_the_last_that_was_added_and_not_retired(
    store: Store,
) -> None:
    await people(store)
    for hours, version in enumerate(("9", "10", "2")):
        at = CREATED_AT + timedelta(hours=hours)
        await store.add_dataset(make_dataset(version=version, created_at=at), actor="ada")
    assert (await store.get_dataset("div2k", None)).version == "2"
    await store.update_dataset("div2k", "2", retired=True, actor="ada")
    assert (await store.get_dataset("div2k", None)).version == "10"
    assert [each.version for each in await store.list_datasets(visible_to=None)] == ["2", "10", "9"]
    for version in ("9", "10"):
        await store.update_dataset("div2k", version, retired=True, actor="ada")
    with pytest.raises(NotFound):
        await store.get_dataset("div2k", None)


async def test_datasets_are_seen_by_owners_and_by_members(store: Store) -> None:
    await people(store)
    await store.add_dataset(make_dataset("own"), actor="ada")
    await store.add_dataset(make_dataset("both", projects=("nlp", "vision")), actor="ada")
    await store.add_dataset(make_dataset("theirs", owner="bob", projects=("nlp",)), actor="bob")

    async def seen(name: str | None) -> Sequence[str]:
        return [each.name for each in await store.list_datasets(visible_to=name)]

    assert await seen("ada") == ["both", "own"]
    assert await seen("bob") == ["both", "theirs"]
    assert await seen("carol") == ["both", "theirs"]
    assert await seen("dave") == []
    assert await seen(None) == ["both", "own", "theirs"]
    assert (await store.list_datasets(visible_to="carol"))[0].projects == ("nlp", "vision")


async def test_of_datasets_hears_who_may_read_them(store: Store) -> None:
    await people(store)
    await store.add_dataset(make_dataset("own"), actor="ada")
    await store.add_dataset(make_dataset("shared", projects=("nlp",)), actor="ada")
    await store.update_dataset("shared", "1.0", revoke=("nlp",), actor="ada")
    await store.update_dataset(
        "shared", "1.0", verified_at=LATER, verified_by="ada", damaged_files=0, actor="ada"
    )
    mine = [("own:1.0", "added")]
    shared = [("shared:1.0", "added"), ("shared:1.0", "projects")]
    assert await hears(store, "dataset.changed", "ada") == [
        *mine,
        *shared,
        ("shared:1.0", "verified"),
    ]
    assert await hears(store, "dataset.changed", "bob") == shared
    assert await hears(store, "dataset.changed", "dave") == []
    root = Actor(user=user("root", "x").model_copy(update={"role": Role.ADMIN}))
    plain = root.model_copy(update={"scopes": frozenset({Scope.READ, Scope.WRITE})})
    events = await store.list_events_after(0)
    assert all(is_event_visible(each, root) for each in events)
    assert not any(
        is_event_visible(each, plain) for each in events if each.kind == "dataset.changed"
    )
