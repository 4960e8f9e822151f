"""The contract of storage adapters: they report problems as facts and raise no errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.bootstrap.adapters import STORAGES
from aitne.core.models.storage_area import Area, AreaFacts, AreaKind
from aitne.core.ports.storage_system import Storage
from tests.support.broker import as_uid
from tests.support.slurm import root_or_skip

NOBODY = 65_534


@pytest.fixture(params=STORAGES.names())
def storage(request: pytest.FixtureRequest) -> Storage:
    return STORAGES.get(request.param)()


def area(storage: Storage, path: str, **changes: object) -> Area:
    found = Area(name="scratch", kind=AreaKind.USER, path=path, adapter=storage.name)
    return found.model_copy(update=changes)


def check(facts: AreaFacts, wanted: Area) -> None:
    """Check the rules that hold for the facts of every area."""
    assert facts.area == wanted
    if not facts.available:
        assert facts.problem
        assert not facts.writable
        assert (facts.user_quota, facts.project_quota, facts.striping) == (None, None, None)
    if facts.problem is not None:
        assert facts.problem.endswith(".")


@pytest.mark.parametrize(
    "below", ["", "none", "none/deeper", "file", "file/x", "loop", "x" * 300, "a\nb", "$(touch x)"]
)
def test_storage_reports_facts_for_any_path(storage: Storage, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    wanted = area(storage, str(tmp_path / below))
    facts = storage.read_area(wanted, user="root")
    check(facts, wanted)
    assert not facts.available or below == ""
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_a_project_of_no_group_and_a_user_of_no_name(storage: Storage, tmp_path: Path) -> None:
    wanted = area(storage, str(tmp_path), kind=AreaKind.PROJECT, project="no-such-group")
    check(storage.read_area(wanted, user="no-such-user"), wanted)
    check(storage.read_area(wanted, user="--help"), wanted)


def test_a_folder_that_may_not_be_entered(storage: Storage, tmp_path: Path) -> None:
    root_or_skip()
    locked = tmp_path / "locked"
    (locked / "inner").mkdir(parents=True)
    locked.chmod(0o700)
    wanted = area(storage, str(locked / "inner"))
    text = as_uid(NOBODY, lambda: storage.read_area(wanted, user="nobody").model_dump_json())
    facts = AreaFacts.model_validate_json(text)
    check(facts, wanted)
    assert not facts.available
    assert "Permission denied" in (facts.problem or "")


def test_a_file_system_that_is_not_mounted(storage: Storage, tmp_path: Path) -> None:
    wanted = area(storage, str(tmp_path), mount=str(tmp_path / "disk"))
    facts = storage.read_area(wanted, user="root")
    check(facts, wanted)
    assert facts.problem == f"No file system is mounted at {tmp_path / 'disk'} on this machine."
