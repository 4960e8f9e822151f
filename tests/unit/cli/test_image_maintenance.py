"""``admin image``: on which platform's files it works, and what it removes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.images import layer_cache
from aitne.adapters.images.image_builder import BuildResult
from aitne.cli import image_maintenance, image_registration
from aitne.client import Client
from aitne.client.platform_discovery import Platform
from aitne.core.errors import Conflict
from aitne.core.models.image import Artifact
from aitne.core.settings import Settings
from tests.support.fake_api import Answer, FakeApi, problem
from tests.unit.cli.conftest import Aitne
from tests.unit.cli.test_image import image

URL = "http://aitne.test"
LONG_AGO = time.time() - 86_400
ROOT = {"user": {"name": "root", "role": "admin"}}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(layer_cache, "get_cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "images").mkdir()
    return Settings(data_dir=tmp_path)


def sif(settings: Settings, name: str) -> Path:
    path = settings.images_dir / f"{name}.sif"
    path.write_bytes(b"x")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def of(path: Path, version: str, **changes: Any) -> dict[str, Any]:
    artifact = {
        "runtime": "apptainer",
        "digest": f"sha256:{'ab' * 32}",
        "size_bytes": 1,
        "path": str(path),
        "mtime_ns": 1,
    }
    return image(version=version, artifacts=[artifact], **changes)


@pytest.mark.parametrize(
    "words", [("verify",), ("gc", "--yes"), ("import", "x", "/etc", "--version", "1", "--yes")]
)
def test_a_platform_somewhere_else_is_not_held_against_the_files_of_this_machine(
    api: FakeApi, aitne: Aitne, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    api.on("GET", "/me", ROOT)
    api.on("GET", "/images", {"items": [image()]})
    done = aitne("admin", "image", *(str(tmp_path) if word == "/etc" else word for word in words))
    assert done.status != 0
    assert "--data-dir" in done.err
    assert {request.method for request in api.requests} == {"GET"}


def test_image_file_shared_by_two_versions_is_kept(api: FakeApi, settings: Settings) -> None:
    shared = sif(settings, "shared")
    old, new = of(shared, "1", state="retired"), of(shared, "2")
    api.on("DELETE", "/images/jupyter/1", {"items": old["artifacts"]})
    client = Client(url=URL)
    api.on("GET", "/images", {"items": [new, old]}, {"items": [new]})
    rubbish = image_maintenance.find_garbage(client.images.list(), settings)
    assert image_maintenance.remove_garbage(rubbish, client, settings)["removed"] == ["jupyter:1"]
    assert shared.exists()


def test_a_folder_reached_by_another_path_holds_the_same_files(
    api: FakeApi, settings: Settings, tmp_path: Path
) -> None:
    used, unused = sif(settings, "used"), sif(settings, "unused")
    (tmp_path / "before").symlink_to(settings.images_dir)
    api.on("GET", "/images", {"items": [of(tmp_path / "before" / used.name, "1")]})
    found = image_maintenance.find_garbage(Client(url=URL).images.list(), settings)
    assert [each.path for each in found.files] == [unused]


def test_image_file_registered_during_confirmation_is_kept(
    api: FakeApi, settings: Settings
) -> None:
    path = sif(settings, "again")
    api.on("GET", "/images", {"items": []}, {"items": [of(path, "1")]})
    client = Client(url=URL)
    rubbish = image_maintenance.find_garbage(client.images.list(), settings)
    assert rubbish.lines()
    assert image_maintenance.remove_garbage(rubbish, client, settings)["removed"] == []
    assert path.exists()


def test_an_image_in_use_keeps_its_file(api: FakeApi, settings: Settings) -> None:
    path = sif(settings, "used")
    api.on("GET", "/images", {"items": [of(path, "1", state="retired")]})
    refused = b'{"code": "conflict", "detail": "In use.", "title": "t", "status": 409}'
    headers = {"Content-Type": "application/problem+json"}
    api.on("DELETE", "/images/jupyter/1", Answer(409, [refused], headers))
    client = Client(url=URL)
    done = image_maintenance.remove_garbage(
        image_maintenance.find_garbage(client.images.list(), settings), client, settings
    )
    assert done["kept"] == ["jupyter:1"]
    assert path.exists()


def test_a_platform_of_somebody_else_sets_no_variables_of_roots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"settings": {"AITNE_PORT": "4711", "PATH": "/evil", "LD_PRELOAD": "/evil.so"}}
    monkeypatch.setattr("aitne.client.platform_discovery.ask_supervisor", lambda *_: told)
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "PATH": "/usr/bin"})
    platform = Platform(URL, "secret", data_dir=str(tmp_path))
    found = image_registration.load_platform_settings(Client(platform=platform))
    assert found.port == 4711
    assert (os.environ["PATH"], "LD_PRELOAD" in os.environ) == ("/usr/bin", False)


@pytest.mark.parametrize("taken_in", [True, False])
def test_refused_image_file_is_removed_unless_already_registered(
    api: FakeApi, settings: Settings, *, taken_in: bool
) -> None:
    path = sif(settings, "same")
    artifact = Artifact(
        runtime="apptainer", digest=f"sha256:{'ab' * 32}", size_bytes=1, path=str(path)
    )
    made = BuildResult((artifact,), (), path, 0.0)
    api.on("GET", "/images", {"items": [of(path, "1")] if taken_in else []})
    api.on("POST", "/images", problem(409, "conflict", "There is one."))
    with pytest.raises(Conflict):
        image_registration.register_image(
            Client(url=URL), {"name": "jupyter", "version": "1"}, made, []
        )
    assert path.exists() is taken_in
