"""Tests of the choice of image layers, and of pip's settings."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.images import image_folder, layer_cache, recipes
from aitne.adapters.images.image_build_log import Work
from aitne.core.errors import InvalidInput
from aitne.core.models.image import Artifact

VALUE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=30)


def test_images_with_the_same_packages_share_layers_and_others_do_not() -> None:
    base, jupyter = (
        recipes.read_recipe(recipes.find_recipe_folder(name)) for name in ("base", "jupyter")
    )
    renamed = base.file.model_copy(update={"name": "other", "version": "7"})
    assert layer_cache.make_layer_names(
        dataclasses.replace(base, file=renamed)
    ) == layer_cache.make_layer_names(base)
    assert layer_cache.make_layer_names(base)[1] is None
    changes = (
        {"debian": (*jupyter.debian, "zsh")},
        {"python": (*jupyter.python, "rich")},
        {"python_prefix": "/opt/other"},
        {"constraints": "numpy==1"},
    )
    made = [
        layer_cache.make_layer_names(dataclasses.replace(jupyter, **change)) for change in changes
    ]
    assert len({layer_cache.make_layer_names(jupyter)[1], *(python for _, python in made)}) == 5
    assert made[0][0] != layer_cache.make_layer_names(jupyter)[0]
    assert {debian for debian, _ in made[1:]} == {layer_cache.make_layer_names(jupyter)[0]}


def test_a_layer_is_good_for_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = recipes.read_recipe(recipes.find_recipe_folder("base"))
    assert layer_cache.find_missing_layers(base) == ("debian",)
    layer = layer_cache.get_cache_folder() / layer_cache.make_layer_names(base)[0]
    layer.mkdir(parents=True)
    (layer / ".made").touch()
    assert layer_cache.find_missing_layers(base) == ()
    assert layer_cache.find_stale_folders() == []
    old = time.time() - 31 * 86_400
    os.utime(layer / ".made", (old, old))
    os.utime(layer, (old, old))
    assert layer_cache.find_missing_layers(base) == ("debian",)
    assert layer_cache.find_stale_folders() == [layer]


@given(VALUE, VALUE)
def test_pip_hears_what_its_files_say(first: str, second: str) -> None:
    listed = (
        f"global.index-url={first!r}\ninstall.find-links={first + chr(10) + second!r}\n"
        f":env:.cert={second!r}\ndownload.dest='x'\nglobal.cache-dir='/x'\n"
    )
    assert layer_cache.parse_pip_settings(listed) == {
        "PIP_INDEX_URL": first,
        "PIP_FIND_LINKS": f"{first} {second}",
        "PIP_CERT": second,
    }


@given(st.text())
def test_pip_settings_are_parsed_from_any_output(listed: str) -> None:
    for name, value in layer_cache.parse_pip_settings(listed).items():
        assert name.startswith("PIP_")
        assert "\n" not in value


def artifact(path: Path) -> Artifact:
    return Artifact(
        runtime="apptainer",
        digest=image_folder.digest_of(path),
        size_bytes=path.stat().st_size,
        path=str(path),
    )


def test_damage_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.sif"
    path.write_bytes(b"content")
    good = artifact(path)
    assert image_folder.find_damage(good) is None
    path.write_bytes(b"CONTENT")
    assert "has changed" in str(image_folder.find_damage(good))
    path.write_bytes(b"cont")
    assert "4 bytes instead of 7" in str(image_folder.find_damage(good))
    path.unlink()
    assert "is missing" in str(image_folder.find_damage(good))


def test_a_digest_of_another_file_is_refused(tmp_path: Path) -> None:
    image_folder.check_digest(None, "sha256:a", tmp_path)
    image_folder.check_digest("sha256:a", "sha256:a", tmp_path)
    with pytest.raises(InvalidInput, match="not the expected file"):
        image_folder.check_digest("sha256:b", "sha256:a", tmp_path)


def test_recent_image_files_are_no_leftovers(tmp_path: Path) -> None:
    images = image_folder.ImageFolder(tmp_path)
    for name in ("known.sif", "young.sif", "old.sif", "note.txt"):
        (tmp_path / name).write_bytes(b"x")
    for name in (".making-old", ".making-young"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "image.sif").write_bytes(b"xyz")
    long_ago = time.time() - 10 * 86_400
    for name in ("known.sif", "old.sif", "note.txt", ".making-old"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    found = images.find_leftovers({tmp_path / "known.sif"})
    assert [(each.path.name, each.size_bytes) for each in found] == [
        (".making-old", 3),
        ("old.sif", 1),
    ]


def test_killed_build_does_not_write_into_later_layer(tmp_path: Path) -> None:
    layer = tmp_path / "cache" / "debian-1"
    job = Work(tmp_path / "log", lambda _: None)
    with layer_cache._replace_folder(layer, job) as killed:
        remains = killed.rename(killed.with_name(f"{killed.name}x"))
        killed.mkdir()
    shutil.rmtree(layer)
    with layer_cache._replace_folder(layer, job) as made:
        assert not remains.exists()
        assert made not in (remains, killed)
        killed.mkdir()
        (killed / "late").touch()
        (made / "root").mkdir()
    assert {path.name for path in layer.iterdir()} == {"root", ".made"}
    assert layer.stat().st_mode & 0o777 == 0o755


def test_temporary_folder_of_killed_build_is_found_after_one_day(tmp_path: Path) -> None:
    for name in ("aitne-image-old", "aitne-image-young", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"xyz")
    (tmp_path / "aitne-image-link").symlink_to(tmp_path / "other")
    long_ago = time.time() - 2 * 86_400
    for name in ("aitne-image-old", "other", "aitne-image-link"):
        os.utime(tmp_path / name, (long_ago, long_ago), follow_symlinks=False)
    found = image_folder.find_abandoned(tmp_path)
    assert [(each.path.name, each.size_bytes) for each in found] == [("aitne-image-old", 3)]
