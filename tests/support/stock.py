"""The shipped images, built once for all test runs until their sources change."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.images import image_builder, recipes
from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings
from aitne.local_system.platform_folders import cache_dir
from tests.support.dockerd import Dockerd, running
from tests.support.images import need_apptainer
from tests.support.platform import RunningPlatform, on_cluster, run_platform
from tests.support.requirements import lacking

NAMES = ("base", "jupyter")
_ROOT = Path(__file__).resolve().parents[2]
_MADE_OF = ("containers", "backend/aitne/adapters/images")


@functools.cache
def stock_folder() -> Path:
    """Return the folder of the test images, named after a hash of the sources that they are made of."""
    digest = hashlib.sha256()
    for place in _MADE_OF:
        for path in sorted((_ROOT / place).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return cache_dir() / "tests" / f"stock-{digest.hexdigest()[:12]}"


@pytest.fixture(scope="session")
def stock_dockerd() -> Iterator[Dockerd]:
    """A daemon of the tests' own that keeps its images from run to run."""
    with _alone("docker"), running(cache_dir() / "tests" / "docker") as found:
        yield found


def make_stock(dockerd: Dockerd | None = None) -> Path:
    """Build the test images that are missing; return their folder.

    With ``dockerd`` the images are loaded into its store too.
    """
    need_apptainer()
    if os.geteuid() != 0:
        lacking("apptainer", "only root can build images")
    kept = stock_folder()
    with _alone("stock"):
        for name in NAMES:
            _make(kept, name, "apptainer", ContainerSettings(images_dir=kept))
            if dockerd is not None:
                _make(kept, name, "docker", ContainerSettings(docker_url=dockerd.url), dockerd)
    return kept


def shared_folder() -> Path:
    """Return the folder of the copies that all accounts can read."""
    return Path("/var/cache/aitne") / stock_folder().name


def shared_stock() -> Path:
    """Copy the test images to the folder that all accounts can read, and return it."""
    kept, shared = make_stock(), shared_folder()
    with _alone("stock"):
        shared.mkdir(mode=0o755, parents=True, exist_ok=True)
        for file in kept.glob("*.sif"):
            if not (shared / file.name).exists():
                shutil.copyfile(file, shared / f".{file.name}")
                (shared / f".{file.name}").chmod(0o644)
                (shared / f".{file.name}").rename(shared / file.name)
    return shared


def offer_stock(platform: RunningPlatform, images: Path) -> None:
    """Put what lies in ``images``, the platform's folder for them, into its catalogue; what was made
    for Docker too, if the platform uses it."""
    client = Client(platform.url, platform.token)
    with_docker = "docker_url" in (platform.data_dir / "aitne.toml").read_text()
    for name in NAMES:
        found = [json.loads(_record(name, "apptainer").read_text())]
        if with_docker:
            found.append(json.loads(_record(name, "docker").read_text()))
        artifacts = [
            {**each["artifact"], "path": str(images / each["file"]) if each["file"] else None}
            for each in found
        ]
        client.images.register(found[0]["image"], artifacts, packages=found[0]["packages"])


@contextmanager
def stock_on(cluster: DevCluster, home: Path) -> Iterator[RunningPlatform]:
    """Run a platform with both images in ``home``, on a Slurm cluster whose nodes have Apptainer."""
    images = shared_stock()
    with run_platform(
        on_cluster(home, cluster, f'[containers]\nimages_dir = "{images}"')
    ) as running:
        offer_stock(running, images)
        yield running


def _make(
    kept: Path,
    name: str,
    runtime: str,
    containers: ContainerSettings,
    dockerd: Dockerd | None = None,
) -> None:
    record = _record(name, runtime)
    if record.exists() and _still_there(json.loads(record.read_text()), kept, dockerd):
        return
    recipe = recipes.read_recipe(recipes.find_recipe_folder(name))
    settings = Settings(data_dir=kept / "data", containers=containers)
    made = image_builder.build_image(
        image_builder.make_build_plan(recipe, [runtime]), settings, print
    )
    (artifact,) = made.artifacts
    content = {
        "image": recipe.document,
        "artifact": artifact.model_dump(mode="json", include={"runtime", "digest", "size_bytes"}),
        "file": None if artifact.path is None else Path(artifact.path).name,
        "packages": [package.model_dump(mode="json") for package in made.packages],
    }
    record.write_text(json.dumps(content))


def _record(name: str, runtime: str) -> Path:
    return stock_folder() / f"{name}-{runtime}.json"


def _still_there(content: dict[str, Any], kept: Path, dockerd: Dockerd | None) -> bool:
    if dockerd is None:
        return Path(kept, content["file"]).exists()
    assert dockerd.client is not None
    known = {image.id for image in dockerd.client.images.list()}
    return content["artifact"]["digest"] in known


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Hold a lock that excludes all other test processes of this machine."""
    lock = cache_dir() / "tests" / f".{what}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
