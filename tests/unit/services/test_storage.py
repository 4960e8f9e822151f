"""A user's storage areas: owners, facts, and creation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from aitne.adapters.unix_account_mapping import OwnAccount, UnixAccounts
from aitne.core.errors import InvalidInput, NotFound, Unavailable
from aitne.core.models.storage_area import (
    Area,
    AreaFacts,
    PathFacts,
    Quota,
    StorageTarget,
)
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import StorageSettings
from aitne.services.storage_areas import StorageService
from tests.unit.services.conftest import ADA, Clock, make_actor

SITE = StorageSettings.model_validate(
    {
        "areas": [
            {"name": "scratch", "path": "/scratch/{user}"},
            {"name": "projects", "path": "/projects/{project}", "kind": "project"},
            {"name": "shared", "path": "/shared", "make": False},
        ]
    }
)


class Shelf:
    """Folders that a test puts there, and what was asked for."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.facts: dict[str, dict[str, object]] = {}
        self.silent = False
        self.missing = False
        """Folders exist only if the test has added or created them."""
        self.looks: list[list[str]] = []
        self.made: list[list[str]] = []

    async def read_areas(self, account: str | None, areas: Sequence[Area]) -> Sequence[AreaFacts]:
        self._answer()
        self.looks.append([area.path for area in areas])
        return [
            AreaFacts(area=area, available=False, problem=f"There is no folder {area.path}.")
            if self.missing and area.path not in self.there | {"/shared"}
            else AreaFacts(area=area, available=True, writable=True).model_copy(
                update=self.facts.get(area.name, {})
            )
            for area in areas
        ]

    async def read_paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        self._answer()
        return [
            PathFacts(path=path, real_path=path, kind="folder")
            if path in self.there
            else PathFacts(path=path, problem="No such file or directory")
            for path in paths
        ]

    async def create_folders(self, account: str | None, areas: Sequence[Area]) -> Sequence[str]:
        self.made.append([area.path for area in areas])
        self.there.update(area.path for area in areas if area.kind == "user")
        return [f"{area.path} is not made." for area in areas if area.kind == "project"]

    def _answer(self) -> None:
        if self.silent:
            raise Unavailable("The broker does not answer.")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def storage(shelf: Shelf, tmp_path: Path) -> StorageService:
    accounts = OwnAccount(Settings(data_dir=tmp_path))
    return StorageService(SITE, accounts, shelf, Clock())


def names(areas: Sequence[AreaFacts]) -> list[tuple[str, str | None]]:
    return [(facts.area.name, facts.area.project) for facts in areas]


async def test_storage_areas_match_projects_of_user(storage: StorageService) -> None:
    actor = make_actor(projects=("vision", "speech"))
    everything = await storage.create_and_inspect_areas(actor)
    assert names(everything.areas) == [
        ("home", None),
        ("scratch", None),
        ("projects", "speech"),
        ("projects", "vision"),
        ("shared", None),
    ]
    one = await storage.create_and_inspect_areas(actor, "vision")
    assert ("projects", "speech") not in names(one.areas)
    with pytest.raises(NotFound):
        await storage.create_and_inspect_areas(actor, "secret")


async def test_many_looks_at_once_are_one(storage: StorageService, shelf: Shelf) -> None:
    views = await asyncio.gather(*(storage.create_and_inspect_areas(ADA) for _ in range(5)))
    assert len(shelf.looks) == 1
    assert all(view is views[0] for view in views)


async def test_storage_problems_are_reported_to_user(storage: StorageService, shelf: Shelf) -> None:
    full = Quota(used_bytes=2 << 30, limit_bytes=1 << 30, used_files=5, limit_files=5)
    shelf.facts = {
        "home": {"user_quota": full},
        "scratch": {"writable": False, "total_bytes": 10, "free_bytes": 0},
        "projects": {
            "project_quota": Quota(used_bytes=5, limit_bytes=5),
            "targets": (
                StorageTarget(name="101", state="Online/Good"),
                StorageTarget(name="102", state="Offline/Good"),
            ),
        },
        "shared": {"available": False, "problem": "There is no folder /shared."},
    }
    view = await storage.create_and_inspect_areas(ADA)
    assert view.problems == (
        "Your quota of home is used up: 2 GiB of 1 GiB. Delete something, or ask for more.",
        "Your quota of home is used up: 5 of 5 files. Delete some, or ask for more.",
        "You may not write into " + view.areas[1].area.path + ".",
        "The file system of " + view.areas[1].area.path + " is full.",
        "The project's quota of projects of project vision is used up: 5 B of 5 B. Delete something, "
        "or ask for more.",
        "/projects/vision lies on storage targets with problems: 102 (Offline/Good).",
        "There is no folder /shared.",
    )


async def test_a_broker_that_is_away_is_said(storage: StorageService, shelf: Shelf) -> None:
    shelf.silent = True
    view = await storage.create_and_inspect_areas(ADA)
    assert view.problems == ("The broker does not answer.",)
    assert [facts.available for facts in view.areas] == [False] * 4
    assert await storage.create_missing_areas(ADA) == ("The broker does not answer.",)


async def test_user_without_unix_account_gets_reason_for_missing_areas(
    shelf: Shelf, tmp_path: Path
) -> None:
    accounts = UnixAccounts(Settings(data_dir=tmp_path))
    storage = StorageService(SITE, accounts, shelf, Clock())
    actor = make_actor("no-such-person")
    view = await storage.create_and_inspect_areas(actor)
    assert (view.account, view.areas) == (None, ())
    assert view.problems[0].startswith("no-such-person has no Unix account that jobs may run as.")
    assert not shelf.looks
    with pytest.raises(InvalidInput):
        await storage.create_missing_areas(actor)


async def test_missing_storage_area_is_created_once(storage: StorageService, shelf: Shelf) -> None:
    problems = await storage.create_missing_areas(ADA)
    [made] = shelf.made
    assert [path.split("/")[1] for path in made[1:]] == ["scratch", "projects"]
    assert "/shared" not in made, "the platform is not to make this one"
    assert problems == ("/projects/vision is not made.",)

    shelf.there.add("/projects/vision")
    assert await storage.create_missing_areas(ADA) == ()
    assert len(shelf.made) == 1
    shelf.silent = True
    assert await storage.create_missing_areas(ADA) == (), (
        "all was there a moment ago: nobody is asked"
    )


async def test_storage_warning_names_only_folders_that_cannot_be_created(
    storage: StorageService, shelf: Shelf
) -> None:
    shelf.missing = True
    view = await storage.create_and_inspect_areas(ADA)
    assert [facts.area.name for facts in view.areas if not facts.available] == ["projects"]
    [said] = view.problems
    assert said == "There is no folder /projects/vision."
    assert await storage.create_and_inspect_areas(ADA) is view, (
        "what cannot be made costs no look of its own each time"
    )
    assert "/shared" not in shelf.made[0]


class OneHome:
    """Accounts of services often share a home."""

    def get_account(self, user: str) -> UnixAccount:
        return UnixAccount(name=user, user=user, uid=9, home="/nonexistent", folder="/jobs")


async def test_accounts_that_share_a_folder_are_not_shown_each_others_view() -> None:
    shelf = Shelf()
    service = StorageService(StorageSettings(), OneHome(), shelf, Clock())
    for name in ("ada", "backup"):
        assert (await service.create_and_inspect_areas(make_actor(name))).account == name
    assert len(shelf.looks) == 2
