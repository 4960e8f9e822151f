"""Store of datasets' manifests. Each manifest is a compressed file in a folder whose name is the
digest of the manifest's text.

An uploaded manifest is kept in a folder of the user until a dataset refers to it. If no dataset has
referred to it within a day, the next upload removes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from typing_extensions import override

from aitne.core import dataset_manifest
from aitne.core.dataset_manifest import ManifestError, Summary
from aitne.core.errors import InvalidInput, RateLimited, Unavailable
from aitne.core.ports.catalogue_files import Manifests
from aitne.local_system.state_file_reader import read_state

log = logging.getLogger(__name__)

MOST_WAITING = 4
"""Maximum number of a user's uploads to which no dataset refers yet; one more removes the oldest.
"""
MOST_AT_ONCE = 4
UNUSED_S = 86_400.0
SPARE_BYTES = 256 << 20
"""Bytes that must stay free on the manifests' disk, which may hold the database too."""
_RETRY_S = 10.0
_CHUNK = 1 << 20
_TEXT, _SUMMARY = "manifest.gz", "summary.json"
_WAITING = "waiting"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ManifestFolder(Manifests):
    """Implementation of ``core.ports.catalogue_files.Manifests`` with files below ``folder``, which
    the first upload creates.
    """

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = dataset_manifest.MOST_BYTES,
        spare_bytes: int = SPARE_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._most = most_bytes
        self._spare = spare_bytes
        self._now = now
        self._busy: set[str] = set()

    @override
    async def receive(
        self, user: str, digest: str, chunks: AsyncIterator[bytes], used: Collection[str]
    ) -> Summary:
        with self._reserve_upload(user):
            user_folder = self._folder / _WAITING / user
            with _convert_errors(self._folder):
                await asyncio.to_thread(self._prepare_upload, user_folder, used)
                fresh = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".", dir=user_folder))
                try:
                    await self._write_upload(fresh / _TEXT, chunks)
                    summary = await asyncio.to_thread(self._check_manifest, fresh, digest)
                    await asyncio.to_thread(_move_upload, fresh, user_folder / digest)
                finally:
                    await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
        return summary

    @override
    async def find_summary(self, user: str, digest: str, *, kept: bool) -> Summary | None:
        places = [self._folder / _WAITING / user / digest]
        if kept:
            places.append(self._folder / digest)
        with _convert_errors(self._folder):
            return await asyncio.to_thread(_find_summary, places)

    @override
    async def make_permanent(self, user: str, digest: str) -> None:
        with _convert_errors(self._folder):
            await asyncio.to_thread(self._make_permanent, user, digest)

    @override
    def get_path(self, digest: str) -> Path:
        path = self._folder / digest / _TEXT
        if not path.is_file():
            raise Unavailable(
                f"The manifest {digest} is missing in {self._folder}. Restore it from a backup."
            )
        return path

    @contextmanager
    def _reserve_upload(self, user: str) -> Iterator[None]:
        if user in self._busy:
            raise RateLimited(
                "Another manifest of yours is being uploaded. Wait for its end.", _RETRY_S
            )
        if len(self._busy) >= MOST_AT_ONCE:
            raise RateLimited("Too many manifests are being uploaded. Try again soon.", _RETRY_S)
        self._busy.add(user)
        try:
            yield
        finally:
            self._busy.discard(user)

    def _prepare_upload(self, user_folder: Path, used: Collection[str]) -> None:
        user_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        uploads = sorted(user_folder.iterdir(), key=_modified_at)
        stale = uploads[: max(0, len(uploads) - MOST_WAITING + 1)]
        unused = [
            folder
            for folder in self._folder.iterdir()
            if _DIGEST.fullmatch(folder.name) and folder.name not in used
        ]
        waiting = [
            folder for user in (self._folder / _WAITING).iterdir() for folder in user.iterdir()
        ]
        stale += [
            folder
            for folder in (*unused, *waiting)
            if self._now() - _modified_at(folder) > UNUSED_S
        ]
        for folder in dict.fromkeys(stale):
            shutil.rmtree(folder, ignore_errors=True)

    async def _write_upload(self, path: Path, chunks: AsyncIterator[bytes]) -> None:
        written_bytes = since_look = 0
        with path.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            async for chunk in chunks:
                written_bytes += len(chunk)
                since_look += len(chunk)
                if written_bytes > self._most:
                    raise ManifestError(f"is larger than {self._most} bytes")
                if since_look >= 16 * _CHUNK or since_look == written_bytes:
                    since_look = 0
                    self._check_space()
                await asyncio.to_thread(file.write, chunk)

    def _check_space(self) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < self._spare:
            raise Unavailable(
                f"The disk that holds {self._folder} is full: {free} bytes are free, and "
                f"{self._spare} must be. Nothing was stored; ask an administrator to free some "
                "space."
            )

    def _check_manifest(self, fresh: Path, digest: str) -> Summary:
        with (fresh / _TEXT).open("rb") as file:
            packed = iter(lambda: file.read(_CHUNK), b"")
            summary = dataset_manifest.summarize_manifest(
                dataset_manifest.decompress_manifest(packed, most_bytes=self._most)
            )
        if summary.digest != digest:
            raise InvalidInput.field(
                "sha256",
                "the uploaded manifest has another digest; upload it again",
                value=digest,
                allowed=summary.digest,
            )
        (fresh / _SUMMARY).write_text(json.dumps(asdict(summary)))
        return summary

    def _make_permanent(self, user: str, digest: str) -> None:
        target = self._folder / digest
        try:
            (self._folder / _WAITING / user / digest).rename(target)
        except OSError:
            # The same manifest is stored already; the upload is removed after a day.
            if not target.exists():
                raise


def _find_summary(places: Iterable[Path]) -> Summary | None:
    for folder in places:
        try:
            summary = read_state(Summary, folder / _SUMMARY)
            os.utime(folder)
        except FileNotFoundError:
            continue
        return summary
    return None


def _move_upload(fresh: Path, place: Path) -> None:
    """Move the upload to its final place; an existing folder there has identical content and is
    kept.
    """
    for name in (_TEXT, _SUMMARY):
        _sync_to_disk(fresh / name)
    if place.exists():
        os.utime(place)
    else:
        fresh.rename(place)


def _sync_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _modified_at(path: Path) -> float:
    """Return the modification time in seconds since 1970; the current time if the file no longer
    exists.
    """
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


@contextmanager
def _convert_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        log.error("A manifest cannot be stored in %s: %s", folder, error)
        raise Unavailable(
            f"The platform cannot store the manifest: {error.strerror or error}. Nothing was "
            "stored; ask an administrator to check the platform's data folder."
        ) from error
