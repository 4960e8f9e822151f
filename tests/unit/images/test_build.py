"""Image builds, as far as they need no platform."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.adapters.images import image_builder, layer_cache, recipes
from aitne.core.errors import SetupError
from aitne.core.settings import Settings


@pytest.mark.skipif(os.geteuid() != 0, reason="images are built by root")
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "images").write_text("a file, as a disk that is not mounted would be")
    plan = image_builder.make_build_plan(
        recipes.read_recipe(recipes.find_recipe_folder("base")), ["apptainer"]
    )
    said: list[str] = []
    with pytest.raises(SetupError, match="cannot be written"):
        image_builder.build_image(plan, Settings(data_dir=tmp_path), said.append)
    assert said == []
    assert not layer_cache.get_cache_folder().exists()
