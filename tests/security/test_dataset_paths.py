"""An accepted path of a dataset is always below one of the user's folders."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.adapters.unix_account_mapping import OwnAccount
from aitne.adapters.user_folder_operations import OwnUserFolders
from aitne.bootstrap.adapters import make_storages
from aitne.core.errors import InvalidInput
from aitne.core.models.user import Actor, User
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import AreaSettings, StorageSettings
from aitne.services.datasets.permitted_dataset_folders import DatasetPaths
from tests.support.jobs import CREATED_AT

PARTS = ["home", "shared", "secret", "a", "b", "out", "up", "in", "..", ".", "", "~", "{home}", "*"]
NAMES = st.lists(st.sampled_from(PARTS), max_size=7).map("/".join)


class Tree:
    """A home, a folder for datasets and a folder of another owner, connected by symbolic links."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.shared = root / "home", root / "shared"
        for folder in (self.home / "a" / "b", self.shared / "a", root / "secret" / "a"):
            folder.mkdir(parents=True)
        for folder in (self.home, self.home / "a", self.shared):
            (folder / "out").symlink_to(root / "secret")
            (folder / "up").symlink_to("..")
            (folder / "in").symlink_to(self.home / "a")
        storage = StorageSettings(
            datasets=[self.shared],
            areas=[AreaSettings(name="scratch", path=f"{root}/nothing/{{user}}")],
        )
        places = OwnUserFolders(storage, make_storages(storage))
        accounts = OwnAccount(Settings(data_dir=root))
        self._paths = DatasetPaths(storage, accounts, places)
        user = User(name="ada", default_project="ada", created_at=CREATED_AT)
        self._ada = Actor(user=user, projects=frozenset({"ada"}))

    def checked(self, path: str) -> str | None:
        """Return the real path, or None if it is refused."""
        try:
            return asyncio.run(self._paths.check_path(self._ada, path))
        except InvalidInput:
            return None


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    root = tmp_path.resolve()
    monkeypatch.setenv("HOME", str(root / "home"))
    return Tree(root)


def test_accepted_dataset_path_is_below_folder_of_user(tree: Tree) -> None:
    accepted = set()

    @settings(max_examples=300, deadline=None)
    @given(below=st.booleans(), name=NAMES)
    def never_elsewhere(below: bool, name: str) -> None:
        path = f"{tree.root}/{name}" if below else f"/{name}"
        found = tree.checked(path)
        if found is None:
            return
        assert found == os.path.realpath(path)
        real = Path(found)
        assert real == tree.shared or tree.shared in real.parents or tree.home in real.parents
        accepted.add(found)

    never_elsewhere()
    for path in (f"{tree.home}/a", f"{tree.shared}", f"{tree.shared}/a", f"{tree.home}/a/b"):
        assert tree.checked(path) == path
    assert tree.checked(f"{tree.home}/in/b") == f"{tree.home}/a/b"


def test_path_that_leads_elsewhere_is_refused(tree: Tree) -> None:
    for path in ("home", "home/", "home/.", "home/a/up", "home/out/a", "home/up", "shared/up", ""):
        assert tree.checked(f"{tree.root}/{path}") is None, path
