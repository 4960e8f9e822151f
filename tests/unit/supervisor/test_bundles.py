"""A bundle is used only where it fits, and leaves nothing behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.supervisor import offline_bundle, software_environments


def make_bundle(folder: Path, **changes: str) -> Path:
    """Create a bundle without packages."""
    (folder / offline_bundle.WHEELS).mkdir(parents=True)
    facts = {"release": "0.2.0", **offline_bundle.get_bundle_kind(), **changes}
    (folder / offline_bundle.MANIFEST).write_text(json.dumps(facts))
    return folder


@pytest.mark.parametrize("changes", [{"python": "2.7"}, {"machine": "vax"}])
def test_bundle_for_another_machine_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    folder = make_bundle(tmp_path / "bundle", **changes)
    with (
        pytest.raises(SetupError, match="Make one on a machine like this"),
        offline_bundle.use_bundle(folder),
    ):
        pass


def test_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="tar -xf"), offline_bundle.use_bundle(tmp_path):
        pass


def test_packages_come_from_the_bundle_only_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/opt/wheels")
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    folder = make_bundle(tmp_path / "bundle")
    (folder / offline_bundle.PROXY).mkdir()
    (folder / offline_bundle.PROXY / "package.json").write_text("{}")
    with offline_bundle.use_bundle(folder):
        assert os.environ["PIP_NO_INDEX"] == "1"
        assert offline_bundle.get_bundle_variables()["PIP_FIND_LINKS"] == str(
            folder / offline_bundle.WHEELS
        )
        software_environments.install_proxy(tmp_path / "proxy")
    assert (tmp_path / "proxy" / "package.json").read_text() == "{}"
    assert os.environ["PIP_FIND_LINKS"] == "/opt/wheels"
    assert "PIP_NO_INDEX" not in os.environ
    assert offline_bundle.get_bundle_variables() == {}


def test_bundle_has_one_wheel_of_the_platform(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "bundle")
    with pytest.raises(SetupError, match="0 wheels"):
        offline_bundle.get_wheel(folder)
    wheel = folder / offline_bundle.WHEELS / "aitne-0.2.0-py3-none-any.whl"
    wheel.touch()
    assert offline_bundle.get_wheel(folder) == wheel
