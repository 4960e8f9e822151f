"""Wheels of the machine that builds an image."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aitne.adapters.images import folder, layers, wheels
from aitne.core.errors import InvalidInput, SetupError


def test_the_training_runtime_can_be_installed_from_its_wheel(tmp_path: Path) -> None:
    made = wheels.put("aitne", tmp_path)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", target]
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", made], check=True)
    names = zipfile.ZipFile(made).namelist()
    assert {"aitne/distrib/transport/base.py", "aitne/distrib/_native/reduce.c"} <= set(names)
    assert not any("__pycache__" in name or name.startswith("aitne/api/") for name in names)
    runner = subprocess.run(
        [sys.executable, "-S", "-c", "import aitne.launch.main; print(aitne.launch.main.__file__)"],
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert runner.stdout.startswith(str(target))
    assert "aitne-run" in {path.name for path in (target / "bin").iterdir()}


def test_a_wheel_that_was_built_here_is_taken_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"wheels/horovod-1, which holds 0. Build it first"):
        wheels.identity("horovod-1")
    place = tmp_path / "aitne" / "wheels" / "horovod-1"
    place.mkdir(parents=True)
    (place / "horovod-1-cp311.whl").write_bytes(b"one")
    first = wheels.identity("horovod-1")
    assert wheels.put("horovod-1", tmp_path).read_bytes() == b"one"
    (place / "horovod-1-cp311.whl").write_bytes(b"two")
    assert wheels.identity("horovod-1") != first


def test_changed_wheel_changes_layer_key() -> None:
    recipe = folder.read(folder.find("jupyter"))
    extended = dataclasses.replace(recipe, wheels=("aitne",))
    assert layers.keys(extended)[0] == layers.keys(recipe)[0]
    assert layers.keys(extended)[1] != layers.keys(recipe)[1]


def test_a_wheel_needs_a_place_to_go_to(tmp_path: Path) -> None:
    (tmp_path / "image.yaml").write_text(
        "name: x\nversion: 1.0.0\ndescription: x\nwheels: [aitne]\n"
    )
    with pytest.raises(InvalidInput, match="python_prefix is missing"):
        folder.read(tmp_path)
