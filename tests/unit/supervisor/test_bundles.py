"""A bundle is used only where it fits, and leaves nothing behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.supervisor import bundle_use, environments


def make_bundle(folder: Path, **changes: str) -> Path:
    """Create a bundle without packages."""
    (folder / bundle_use.WHEELS).mkdir(parents=True)
    facts = {"release": "0.2.0", **bundle_use.get_bundle_kind(), **changes}
    (folder / bundle_use.MANIFEST).write_text(json.dumps(facts))
    return folder


@pytest.mark.parametrize("changes", [{"python": "2.7"}, {"machine": "vax"}])
def test_bundle_for_another_machine_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    folder = make_bundle(tmp_path / "bundle", **changes)
    with (
        pytest.raises(SetupError, match="Make one on a machine like this"),
        bundle_use.use_bundle(folder),
    ):
        pass


def test_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="tar -xf"), bundle_use.use_bundle(tmp_path):
        pass


def test_packages_come_from_the_bundle_only_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/opt/wheels")
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    folder = make_bundle(tmp_path / "bundle")
    (folder / bundle_use.PROXY).mkdir()
    (folder / bundle_use.PROXY / "package.json").write_text("{}")
    with bundle_use.use_bundle(folder):
        assert os.environ["PIP_NO_INDEX"] == "1"
        assert bundle_use.get_bundle_variables()["PIP_FIND_LINKS"] == str(
            folder / bundle_use.WHEELS
        )
        environments.install_proxy(tmp_path / "proxy")
    assert (tmp_path / "proxy" / "package.json").read_text() == "{}"
    assert os.environ["PIP_FIND_LINKS"] == "/opt/wheels"
    assert "PIP_NO_INDEX" not in os.environ
    assert bundle_use.get_bundle_variables() == {}


def test_bundle_has_one_wheel_of_the_platform(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "bundle")
    with pytest.raises(SetupError, match="0 wheels"):
        bundle_use.get_wheel(folder)
    wheel = folder / bundle_use.WHEELS / "aitne-0.2.0-py3-none-any.whl"
    wheel.touch()
    assert bundle_use.get_wheel(folder) == wheel
