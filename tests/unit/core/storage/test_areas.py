"""Tests of the folders of users and projects in each storage area."""

from __future__ import annotations

import os.path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aitne.core.errors import InvalidInput
from aitne.core.models.storage_area import AreaKind
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.storage.areas import (
    AreaOwner,
    allowed_roots,
    cache_folder,
    fill_placeholders,
    is_created_by_platform,
    is_within,
    list_areas,
    make_area_owner,
)
from aitne.core.storage.storage_and_container_settings import StorageSettings

ALICE = AreaOwner(user="alice", uid=1001, home="/home/alice")
SITE = StorageSettings.model_validate(
    {
        "areas": [
            {
                "name": "scratch",
                "path": "/scratch/{user}",
                "storage": "beegfs",
                "mount": "/scratch",
            },
            {"name": "projects", "path": "/projects/{project}", "kind": "project", "make": False},
            {"name": "fast", "path": "/fast/{uid}/x"},
        ],
        "caches": "{home}/../caches",
    }
)
PART = st.text(st.characters(exclude_characters="/", codec="utf-8"), max_size=12)
PATH = st.one_of(
    st.lists(st.one_of(PART, st.sampled_from(["..", ".", "", "a", "ab"])), max_size=6).map(
        lambda parts: "/" + "/".join(parts)
    ),
    st.text(max_size=30),
)


def test_home_comes_first_and_every_project_has_its_own() -> None:
    found = list_areas(SITE, ALICE, ["vision", "speech", "vision"])
    assert [(area.name, area.path, area.project) for area in found] == [
        ("home", "/home/alice", None),
        ("scratch", "/scratch/alice", None),
        ("projects", "/projects/vision", "vision"),
        ("projects", "/projects/speech", "speech"),
        ("fast", "/fast/1001/x", None),
    ]
    assert (found[1].adapter, found[1].mount, found[1].kind) == ("beegfs", "/scratch", "user")
    assert found[2].kind is AreaKind.PROJECT
    assert [is_created_by_platform(SITE, area) for area in found] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_a_value_is_never_read_as_a_pattern() -> None:
    odd = AreaOwner(user="alice", uid=1, home="/home/{project}")
    assert fill_placeholders("{home}/{user}", odd) == "/home/{project}/alice"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../root", "a\n", "a\0b", "-rf", "{home}", "é"]
)
def test_a_hostile_name_makes_no_folder(name: str) -> None:
    with pytest.raises(InvalidInput):
        list_areas(SITE, AreaOwner(user=name, uid=1, home="/home/x"))
    with pytest.raises(InvalidInput):
        list_areas(SITE, ALICE, [name])


@pytest.mark.parametrize("home", ["", "/", "//", "/.", "relative", "/home/../etc", "/ho\nme"])
def test_a_home_that_is_nobodys_own_is_refused(home: str) -> None:
    with pytest.raises(InvalidInput, match="an absolute path without"):
        list_areas(SITE, AreaOwner(user="alice", uid=1, home=home))


def test_caches_may_not_climb() -> None:
    with pytest.raises(InvalidInput):
        cache_folder(SITE, ALICE)
    proper = StorageSettings(caches="/scratch/{user}/.cache")
    assert cache_folder(proper, ALICE) == "/scratch/alice/.cache"
    assert cache_folder(StorageSettings(), ALICE) is None


def test_the_platforms_own_account_has_a_name_too() -> None:
    own = UnixAccount(name=None, home="/h", folder="/j", user="svc", uid=7)
    assert make_area_owner(own) == AreaOwner(user="svc", uid=7, home="/h")


@pytest.mark.parametrize(
    ("area", "said"),
    [
        ({"name": "x", "path": "/x/{group}"}, "belongs to none of"),
        ({"name": "x", "path": "/x/{user"}, "belongs to none of"),
        ({"name": "x", "path": "/x", "kind": "project"}, "must contain"),
        ({"name": "x", "path": "/x/{user}/{project}", "kind": "project"}, "no other placeholder"),
        ({"name": "x", "path": "/x/{project}"}, 'needs kind = "project"'),
        ({"name": "x", "path": "/x"}, "the same for all users"),
        ({"name": "home", "path": "/x/{user}"}, "every user has a home already"),
        ({"name": "jobs", "path": "/x/{user}"}, "names files of the platform"),
        ({"name": "datasets", "path": "/x/{user}"}, "names files of the platform"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(area: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        StorageSettings.model_validate({"areas": [area]})


def test_two_areas_have_two_names() -> None:
    area = {"name": "x", "path": "/x/{user}"}
    with pytest.raises(ValidationError, match="two areas are called x"):
        StorageSettings.model_validate({"areas": [area, area]})
    shared = {"name": "x", "path": "/x", "make": False}
    assert StorageSettings.model_validate({"areas": [shared]}).areas[0].path == "/x"


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/scratch/alice", True),
        ("/scratch/alice/", True),
        ("//scratch//alice/./x", True),
        ("/scratch/alice/a b/'$(x)", True),
        ("/scratch/al", False),
        ("/scratch/alicette", False),
        ("/scratch/alice/../bob", False),
        ("/scratch/alice/..", False),
        ("/scratch", False),
        ("/", False),
        ("", False),
        ("scratch/alice", False),
        ("/scratch/alice\n", False),
        ("/scratch/alice/\0", False),
    ],
)
def test_within_goes_by_whole_names(path: str, inside: bool) -> None:
    assert is_within(path, ["/home/alice", "/scratch/alice"]) is inside


def test_a_root_that_is_everything_is_none() -> None:
    assert not is_within("/etc/shadow", ["/", "", "//", "relative", "/..", "/etc/../etc"])


@given(path=PATH, root=PATH)
def test_accepted_path_is_below_root_after_normalisation(path: str, root: str) -> None:
    if is_within(path, [root]):
        above, below = os.path.normpath("/" + root), os.path.normpath("/" + path)
        assert os.path.commonpath([above.lstrip("/"), below.lstrip("/")]) == above.lstrip("/")
        assert ".." not in path.split("/")


@given(user=st.text(max_size=20), project=st.text(max_size=20), home=PATH)
def test_storage_areas_stay_in_their_parent_folder_for_all_names(
    user: str, project: str, home: str
) -> None:
    try:
        found = list_areas(SITE, AreaOwner(user=user, uid=5, home=home), [project])
    except InvalidInput:
        return
    parents = {"scratch": "/scratch", "projects": "/projects", "fast": "/fast/5"}
    for area in found[1:]:
        assert os.path.dirname(os.path.normpath(area.path)) == parents[area.name]
    assert all(os.path.normpath(area.path) == area.path for area in found)
    roots = allowed_roots(found, ["/datasets"])
    assert roots[-1] == "/datasets"
    assert all(is_within(area.path + "/x", roots) for area in found)
