"""Datasets as jobs name them, and manifests as they are kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.adapters.dataset_manifest_store import (
    MOST_AT_ONCE,
    MOST_WAITING,
    UNUSED_S,
    ManifestFolder,
)
from aitne.core.dataset_manifest import Summary
from aitne.core.errors import InvalidInput, NotAllowed, NotFound, RateLimited, Unavailable
from aitne.core.models.access_token import Scope
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.project import Project
from aitne.core.models.user import Actor, Role, User
from aitne.core.settings import Settings
from aitne.services.datasets.datasets import DatasetService
from aitne.store import Store
from tests.support.catalog import make_dataset
from tests.support.catalog_stage import manifest_of
from tests.support.database import migrated
from tests.support.offers import dataset_service

__all__ = ["migrated"]

NOW = datetime(2026, 1, 3, tzinfo=UTC)


def actor(name: str, *projects: str, role: Role = Role.USER) -> Actor:
    user = User(name=name, role=role, default_project=projects[0], created_at=NOW)
    return Actor(user=user, projects=frozenset(projects))


ADA, BOB = actor("ada", "vision", "audio"), actor("bob", "nlp", "vision")
ROOT = actor("root", "root", role=Role.ADMIN)


@pytest.fixture
async def service(migrated: Path, tmp_path: Path) -> AsyncIterator[DatasetService]:
    settings = Settings(data_dir=tmp_path)
    (tmp_path / "aitne.db").write_bytes(migrated.read_bytes())
    store = Store(settings.database_url)
    await store.start()
    for who in (ADA, BOB):
        for project in sorted(who.projects):
            await store.create_user(
                who.user.model_copy(
                    update={"name": f"{who.name}-{project}", "default_project": project}
                ),
                None,
                Project(name=project, created_at=NOW),
            )
        await store.create_user(
            who.user, None, Project(name=who.user.default_project, created_at=NOW)
        )
        for project in sorted(who.projects):
            await store.save_member(project, who.name, actor="root")
    for dataset in (
        make_dataset("div2k", "1.0", projects=("vision",)),
        make_dataset("div2k", "2.0", created_at=NOW, projects=("audio",)),
        make_dataset("faces"),
        make_dataset("old", projects=("vision",), retired=True),
        make_dataset("torn", projects=("vision",)),
    ):
        await store.add_dataset(dataset, actor="ada")
    await store.update_dataset(
        "torn", "1.0", verified_at=NOW, verified_by="bob", damaged_files=2, actor="bob"
    )
    yield dataset_service(store, settings, lambda: NOW)
    await store.close()


async def names(service: DatasetService, who: Actor, *references: str, project: str) -> list[str]:
    return [f"{d.name}:{d.version}" for d in await service.resolve(who, references, project)]


async def why(service: DatasetService, who: Actor, *references: str, project: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        await service.resolve(who, references, project)
    return [f"{each.field}: {each.message}" for each in caught.value.problems]


async def test_datasets_of_job_are_resolved(service: DatasetService) -> None:
    assert await service.resolve(ADA, ["div2k"], "vision") == [
        DatasetUse(name="div2k", version="2.0", path="/data/div2k", manifest="d" * 64)
    ]
    assert await names(service, ADA, "faces", "div2k:1.0", project="vision") == [
        "faces:1.0",
        "div2k:1.0",
    ]
    assert await service.resolve(ADA, [], "vision") == ()


async def test_a_name_alone_is_the_newest_that_the_project_may_read(
    service: DatasetService,
) -> None:
    """Not the newest there is: that one bob's project was not given."""
    assert await names(service, BOB, "div2k", project="vision") == ["div2k:1.0"]


async def test_every_reference_that_cannot_be_is_named(service: DatasetService) -> None:
    found = await why(
        service, BOB, "div2j", "div2k:2.0", "old", "faces", "div2k", "div2k:1.0", project="vision"
    )
    starts = [
        "datasets.0: there is no dataset 'div2j' that you may read; did you mean 'div2k'?",
        "datasets.1: there is no dataset 'div2k:2.0' that you may read; did you mean 'div2k:1.0'?",
        "datasets.2: old is retired",
        "datasets.3: there is no dataset 'faces' that you may read",
        "datasets.5: div2k is named twice",
    ]
    assert len(found) == len(starts)
    for text, start in zip(found, starts, strict=True):
        assert text.startswith(start)


async def test_the_jobs_project_must_be_granted(service: DatasetService) -> None:
    assert (await why(service, BOB, "div2k", project="nlp")) == [
        "datasets.0: div2k is not granted to the project nlp; ask its owner ada: "
        "`aitne dataset grant div2k:1.0 nlp`"
    ]
    # Seeing everything is not reading everything.
    (reason,) = await why(service, ROOT, "faces", project="root")
    assert "not granted to the project root" in reason


async def test_invalid_dataset_reference_is_refused(service: DatasetService) -> None:
    for text in ("", "a b", "../x", "a:", ":1", "a:b:c", "/data/div2k", "A"):
        (reason,) = await why(service, ADA, text, project="vision")
        assert "write name or name:version" in reason


async def test_damage_is_a_warning(service: DatasetService) -> None:
    uses = await service.resolve(BOB, ["torn", "div2k"], "vision")
    (warning,) = await service.warnings(BOB, uses)
    assert warning.startswith("torn:1.0 is damaged: 2 paths differed")
    assert "bob" in warning
    assert await service.warnings(BOB, uses[1:]) == []
    assert await service.warnings(BOB, ()) == ()


async def test_a_credential_that_may_not_read(service: DatasetService) -> None:
    blind = ADA.model_copy(update={"scopes": frozenset({Scope.WRITE})})
    for ask in (service.list(blind), service.resolve(blind, ["div2k"], "vision")):
        with pytest.raises(NotAllowed, match="scope read"):
            await ask


DIGEST, PACKED = manifest_of(one=b"1", two=b"22")
SUMMARY = Summary(DIGEST, 2, 0, 3)


@dataclass
class Hour:
    now: float = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 7):
        yield data[start : start + 7]


async def test_an_upload_waits_for_its_dataset_and_is_then_kept(tmp_path: Path) -> None:
    kept = ManifestFolder(tmp_path)
    assert await kept.receive("ada", DIGEST, pieces(PACKED), ()) == SUMMARY
    assert await kept.find_summary("ada", DIGEST, kept=False) == SUMMARY
    assert await kept.find_summary("bob", DIGEST, kept=True) is None
    with pytest.raises(Unavailable, match="missing"):
        kept.get_path(DIGEST)
    await kept.make_permanent("ada", DIGEST)
    assert kept.get_path(DIGEST).read_bytes() == PACKED
    assert await kept.find_summary("bob", DIGEST, kept=True) == SUMMARY
    assert await kept.find_summary("bob", DIGEST, kept=False) is None
    # The same from another user, and once more from the same one, changes nothing.
    for user in ("bob", "ada"):
        await kept.receive(user, DIGEST, pieces(PACKED), {DIGEST})
        await kept.make_permanent(user, DIGEST)
    assert kept.get_path(DIGEST).read_bytes() == PACKED
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path, kept.get_path(DIGEST))}
    assert modes == {0}


async def test_unused_manifest_is_removed_after_one_day(tmp_path: Path) -> None:
    clock = Hour()
    kept = ManifestFolder(tmp_path, now=clock)
    digests = {}
    for name in ("used", "orphan", "waiting"):
        digests[name], packed = manifest_of(**{name: b""})
        await kept.receive("ada", digests[name], pieces(packed), ())
        if name != "waiting":
            await kept.make_permanent("ada", digests[name])
    for folder in (*tmp_path.glob("[0-9a-f]*"), *tmp_path.glob("waiting/ada/*")):
        os.utime(folder, (clock.now, clock.now))

    async def there(after_s: float) -> set[str]:
        clock.now += after_s
        await kept.receive("bob", DIGEST, pieces(PACKED), {digests["used"]})
        found = set()
        for name, digest in digests.items():
            places = (tmp_path / digest, tmp_path / "waiting" / "ada" / digest)
            if any(place.exists() for place in places):
                found.add(name)
        return found

    assert await there(UNUSED_S) == {"used", "orphan", "waiting"}
    assert await there(1) == {"used"}


async def test_the_oldest_of_many_uploads_goes(tmp_path: Path) -> None:
    clock = Hour()
    kept = ManifestFolder(tmp_path, now=clock)
    digests = []
    for number in range(MOST_WAITING + 1):
        digest, packed = manifest_of(**{f"{number}": b""})
        await kept.receive("ada", digest, pieces(packed), ())
        os.utime(tmp_path / "waiting" / "ada" / digest, (clock.now + number,) * 2)
        digests.append(digest)
    found = [await kept.find_summary("ada", digest, kept=True) is not None for digest in digests]
    assert found == [False, *[True] * MOST_WAITING]


async def test_manifest_uploads_are_limited_per_user_and_in_total(tmp_path: Path) -> None:
    kept = ManifestFolder(tmp_path)
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        begun.release()
        await go_on.wait()
        yield PACKED

    running = []
    for number in range(MOST_AT_ONCE):
        running.append(asyncio.create_task(kept.receive(f"u{number}", DIGEST, slowly(), ())))
        await begun.acquire()
    for user in ("u0", "somebody"):
        with pytest.raises(RateLimited) as caught:
            await kept.receive(user, DIGEST, pieces(PACKED), ())
        assert caught.value.retry_after_s > 0
    go_on.set()
    assert await asyncio.gather(*running) == [SUMMARY] * MOST_AT_ONCE
    await kept.receive("u0", DIGEST, pieces(PACKED), ())


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    kept = ManifestFolder(tmp_path)

    async def broken() -> AsyncIterator[bytes]:
        yield PACKED[:10]
        raise ConnectionAbortedError

    with pytest.raises(Unavailable):
        await kept.receive("ada", DIGEST, broken(), ())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert await kept.find_summary("ada", DIGEST, kept=True) is None


async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="Nothing was stored"):
        await ManifestFolder(tmp_path / "file").receive("ada", DIGEST, pieces(PACKED), ())


async def test_a_manager_ends_what_the_project_reads(service: DatasetService) -> None:
    reader = BOB.model_copy(update={"scopes": frozenset({Scope.READ})})
    leads = BOB.model_copy(update={"manages": frozenset({"vision"})})
    for who in (BOB, reader, leads.model_copy(update={"scopes": reader.scopes})):
        with pytest.raises(NotAllowed):
            await service.revoke(who, "div2k", "1.0", "vision")
    changed = await service.revoke(leads, "div2k", "1.0", "vision")
    assert changed.projects == ()
    with pytest.raises(NotFound):
        await service.revoke(leads, "div2k", "2.0", "audio")
