"""Wheels of the machine that builds an image."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from aitne.adapters.images import layer_cache, recipes, wheels
from aitne.core.errors import InvalidInput, SetupError


def test_a_wheel_that_was_built_here_is_taken_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"wheels/horovod-1, which holds 0. Build it first"):
        wheels.compute_wheel_digest("horovod-1")
    place = tmp_path / "aitne" / "wheels" / "horovod-1"
    place.mkdir(parents=True)
    (place / "horovod-1-cp311.whl").write_bytes(b"one")
    first = wheels.compute_wheel_digest("horovod-1")
    assert wheels.write_wheel("horovod-1", tmp_path).read_bytes() == b"one"
    (place / "horovod-1-cp311.whl").write_bytes(b"two")
    assert wheels.compute_wheel_digest("horovod-1") != first


def test_changed_wheel_changes_layer_key() -> None:
    recipe = recipes.read_recipe(recipes.find_recipe_folder("jupyter"))
    extended = dataclasses.replace(recipe, wheels=("aitne-train",))
    assert layer_cache.make_layer_names(extended)[0] == layer_cache.make_layer_names(recipe)[0]
    assert layer_cache.make_layer_names(extended)[1] != layer_cache.make_layer_names(recipe)[1]


def test_a_wheel_needs_a_place_to_go_to(tmp_path: Path) -> None:
    (tmp_path / "image.yaml").write_text(
        "name: x\nversion: 1.0.0\ndescription: x\nwheels: [aitne-train]\n"
    )
    with pytest.raises(InvalidInput, match="python_prefix is missing"):
        recipes.read_recipe(tmp_path)
