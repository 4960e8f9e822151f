"""A stage whose users have a home, and images and datasets with files on disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.core.dataset_manifest import ManifestFile, compress_manifest, serialize_manifest
from aitne.core.models.image import Artifact
from aitne.core.models.user import Role
from tests.support.catalog import make_dataset, make_image
from tests.support.stage import Stage, open_stage

PHOTO = b"not really a photo"
ROLES = ("owner", "member", "stranger", "administrator")


def manifest_of(**files: bytes) -> tuple[str, bytes]:
    """Return a manifest's digest and its compressed text."""
    entries = [
        ManifestFile(name.encode(), len(data), hashlib.sha256(data).hexdigest())
        for name, data in files.items()
    ]
    text = b"".join(serialize_manifest(entries))
    return hashlib.sha256(text).hexdigest(), b"".join(compress_manifest([text]))


@dataclass(slots=True)
class Catalogue:
    """``ada`` owns, ``bob`` is in her project ``vision``, ``eve`` is not, ``root`` administers."""

    stage: Stage
    home: Path
    tokens: dict[str, str] = field(default_factory=dict)

    async def people(self) -> None:
        """Add an owner, a member, a stranger and an administrator, each with a token."""
        made = {
            "owner": await self.stage.add_user("ada", project="vision"),
            "member": await self.stage.add_user("bob", project="vision"),
            "stranger": await self.stage.add_user("eve"),
            "administrator": await self.stage.add_user("root", Role.ADMIN),
        }
        self.tokens = {who: await self.stage.token(actor) for who, actor in made.items()}

    def client(self, who: str) -> httpx.AsyncClient:
        """Return an API client with the token of a role."""
        return self.stage.client(self.tokens[who])

    def photos(self, name: str = "photos") -> Path:
        """Create a folder of ada's that can become a dataset."""
        folder = self.home / name
        folder.mkdir(parents=True)
        (folder / "one.jpg").write_bytes(PHOTO)
        return folder

    async def upload(self, who: str = "owner", **files: bytes) -> str:
        """Upload a manifest without a dataset; return its digest."""
        digest, packed = manifest_of(**(files or {"one.jpg": PHOTO}))
        async with self.client(who) as client:
            answer = await client.put(f"/api/v1/manifests/{digest}", content=packed)
        assert answer.status_code == 201, answer.text
        return digest

    async def add_dataset(self, name: str = "photos", **fields: Any) -> None:
        """Add a dataset of ada's over the API."""
        digest = await self.upload()
        body = {"name": name, "version": "1.0", "path": str(self.photos(name)), "manifest": digest}
        async with self.client("owner") as client:
            answer = await client.post("/api/v1/datasets", json=body | fields)
        assert answer.status_code == 201, answer.text

    def sif(self, name: str = "base-1.0.sif", content: bytes = b"squashed") -> Artifact:
        """Write an image file; return the artifact that describes it."""
        folder = self.stage.settings.images_dir
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o644)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return Artifact(runtime="apptainer", digest=digest, size_bytes=0, path=str(path))

    async def put_image(self, name: str, **fields: Any) -> None:
        """Store an image without the API."""
        await self.stage.store.add_image(make_image(name, **fields), actor="root")

    async def put_dataset(self, name: str, **fields: Any) -> None:
        """Store a dataset without the API."""
        await self.stage.store.add_dataset(make_dataset(name, **fields), actor="ada")


@asynccontextmanager
async def open_catalogue(
    folder: Path, blank: Path, patch: pytest.MonkeyPatch
) -> AsyncIterator[Catalogue]:
    """Run a catalogue below `folder`, which has the home of the account of all users, too."""
    home = (folder / "home").resolve()
    home.mkdir()
    patch.setenv("HOME", str(home))
    data = folder / "data"
    data.mkdir()
    async with open_stage(data, blank) as stage:
        made = Catalogue(stage, home)
        await made.people()
        yield made


@dataclass(frozen=True, slots=True)
class SavedCatalogue:
    """A catalogue that was closed, for many tests to begin with."""

    folder: Path
    """The folder that every test finds its data in: the database has paths below it."""
    copy: Path
    tokens: Mapping[str, str]

    @classmethod
    def save(cls, folder: Path, copy: Path, tokens: Mapping[str, str]) -> SavedCatalogue:
        """Copy a closed catalogue's folder."""
        shutil.copytree(folder, copy)
        return cls(folder, copy, tokens)

    @asynccontextmanager
    async def opened(self, patch: pytest.MonkeyPatch) -> AsyncIterator[Catalogue]:
        """Run the catalogue as it was saved, during the block."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)
        home = (self.folder / "home").resolve()
        patch.setenv("HOME", str(home))
        async with open_stage(self.folder / "data", self.copy / "data" / "aitne.db") as stage:
            yield Catalogue(stage, home, dict(self.tokens))
