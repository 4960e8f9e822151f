"""Storage of uploaded working trees: a folder for each user, with the trees' documents named by
digest and files' contents named by sha256.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
)
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from typing_extensions import override

from aitne.core import tree_document
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import NotFound, Unavailable
from aitne.core.models.job_source import TreeStatus, TreeUse
from aitne.core.ports.tree_storage import TreesFull, TreeStorage
from aitne.core.storage.storage_and_container_settings import TreeSettings
from aitne.core.tree_document import JobTree, TreeError

log = logging.getLogger(__name__)

MOST_TREES = 1_000
"""Maximum number of uploaded trees of one user."""
BLOCK_BYTES = 4_096
"""Size in bytes to whose multiple each file's size is rounded up for the quota, so that the quota
also limits the number of files.
"""
MOST_PARTIAL = 4
"""Maximum number of a user's trees whose upload is not complete; one more removes the oldest."""
PARTIAL_S = 86_400.0
SPARE_BYTES = 256 << 20
"""Bytes that must remain free on the disk, which may also contain the database."""
_CHUNK = 1 << 20
_COMPLETE, _PARTIAL, _INCOMING = ".json", ".partial", "incoming-"
_HEAD = re.compile(rb"([0-9a-f]{64}) (0|[1-9][0-9]{0,15})\n")
_HEAD_BYTES = 90


class TreeFolder(TreeStorage):
    """Implementation of ``core.ports.tree_storage.TreeStorage`` with files below ``folder``, which the first
    upload creates.
    """

    def __init__(
        self, folder: Path, settings: TreeSettings, *, now: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._now = now
        self._locks: dict[str, threading.Lock] = {}

    @override
    async def receive_document(
        self,
        owner: str,
        digest: str,
        chunks: AsyncIterator[bytes],
        make_room: Callable[[], Awaitable[None]],
    ) -> TreeStatus:
        with _convert_errors(self._folder):
            place = await asyncio.to_thread(self._create_user_folders, owner)
            with tempfile.NamedTemporaryFile(dir=place, prefix=_INCOMING) as file:
                too_large = (
                    f"The list of the tree's files has more than {tree_document.MOST_BYTES} bytes."
                )
                await _write_upload(file, chunks, tree_document.MOST_BYTES, too_large)
                try:
                    return await asyncio.to_thread(self._store_document, owner, digest, file)
                except TreesFull:
                    await make_room()
                return await asyncio.to_thread(self._store_document, owner, digest, file)

    @override
    async def receive_blobs(self, owner: str, digest: str, chunks: AsyncIterator[bytes]) -> None:
        with _convert_errors(self._folder):
            tree = await asyncio.to_thread(self._read_tree, owner, digest, (_COMPLETE, _PARTIAL))
            if tree is None:
                raise NotFound(
                    "tree", digest, f"There is no tree {digest}: send the list of its files first."
                )
            with tempfile.NamedTemporaryFile(dir=self._folder / owner, prefix=_INCOMING) as file:
                most = tree.size_bytes + _HEAD_BYTES * len(tree.files)
                await _write_upload(file, chunks, most, "More was uploaded than the tree has.")
                await asyncio.to_thread(self._store_blobs, owner, file, tree)

    @override
    async def find_tree(self, owner: str, digest: str) -> TreeUse | None:
        with _convert_errors(self._folder):
            tree = await asyncio.to_thread(self._read_tree, owner, digest, (_COMPLETE,))
        return None if tree is None else _make_tree_use(digest, tree)

    @override
    async def read_tree(self, owner: str, digest: str) -> tuple[int, Iterator[bytes]] | None:
        with _convert_errors(self._folder):
            tree = await asyncio.to_thread(self._read_tree, owner, digest, (_COMPLETE,))
        if tree is None:
            return None
        document = tree_document.serialize_tree(tree) + b"\n"
        return len(document) + tree.size_bytes, self._read_pieces(owner, document, tree)

    @override
    async def remove_unused_trees(
        self, in_use: Collection[tuple[str, str]], unused_s: float, *, owner: str | None = None
    ) -> None:
        with _convert_errors(self._folder):
            await asyncio.to_thread(self._remove_unused_trees, in_use, unused_s, owner)

    @contextmanager
    def _lock_user_folder(self, owner: str) -> Iterator[Path]:
        """Hold the lock of a user's folder during the ``with`` block, and yield the folder."""
        with self._locks.setdefault(owner, threading.Lock()):
            yield self._folder / owner

    def _create_user_folders(self, owner: str) -> Path:
        """Create the folders of a user, and return the upper one."""
        with self._lock_user_folder(owner) as place:
            for folder in (place / "trees", place / "blobs"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder.chmod(0o700)
            return place

    def _store_document(self, owner: str, digest: str, file: IO[bytes]) -> TreeStatus:
        file.seek(0)
        document = file.read()
        tree = tree_document.parse_tree(document)
        if tree_document.compute_tree_digest(document) != digest:
            raise TreeError(f"The list of the tree's files does not have the sha256 {digest}.")
        if tree.size_bytes > self._settings.max_bytes:
            raise TreeError(
                f"The tree has {describe_bytes(tree.size_bytes, 'up')}; at most "
                f"{describe_bytes(self._settings.max_bytes, 'down')} are permitted. List what the job does "
                "not need in .aitneignore, and put data into a dataset."
            )
        with self._lock_user_folder(owner) as place:
            if self._touch(place / "trees" / f"{digest}{_COMPLETE}"):
                return _make_tree_status(digest, tree, {})
            missing = {
                sha256: size
                for sha256, size in tree.blobs.items()
                if not _has_size(place / "blobs" / sha256, size)
            }
            partial = place / "trees" / f"{digest}{_PARTIAL}"
            if missing or not partial.exists():
                self._check_space(place, [len(document), *missing.values()])
            _write_document(partial, document)
            self._touch(partial)
            if missing:
                _delete_files(_by_age(place, _PARTIAL)[:-MOST_PARTIAL])
            else:
                partial.rename(partial.with_suffix(_COMPLETE))
            return _make_tree_status(digest, tree, missing)

    def _check_space(self, place: Path, more: Iterable[int]) -> None:
        """Check that the quota and the disk have space for files of the sizes ``more`` in bytes;
        raises ``TreesFull`` otherwise.
        """
        documents, blobs = (
            [entry.stat().st_size for entry in os.scandir(place / name)]
            for name in ("trees", "blobs")
        )
        stored, more_bytes = _count_disk_bytes([*documents, *blobs]), _count_disk_bytes(more)
        quota = self._settings.quota_bytes
        if stored + more_bytes > quota or len(documents) >= MOST_TREES:
            raise TreesFull(
                f"You have {len(documents)} trees of {describe_bytes(stored)}, and this one would "
                f"add {describe_bytes(more_bytes, 'up')}; at most {MOST_TREES} of "
                f"{describe_bytes(quota, 'down')} are permitted. Trees of jobs that have ended make room "
                "an hour after their last use: wait, or make this tree smaller with .aitneignore."
            )
        if shutil.disk_usage(place).free - more_bytes < SPARE_BYTES:
            raise Unavailable(
                f"The disk that holds {self._folder} is full. Nothing was stored; ask an "
                "administrator to free some space."
            )

    def _store_blobs(self, owner: str, file: IO[bytes], tree: JobTree) -> None:
        """Store each file content in an upload under its sha256. Raises ``TreeError`` if the upload
        is invalid.
        """
        sizes = tree.blobs
        with self._lock_user_folder(owner) as place:
            while head := file.readline(_HEAD_BYTES):
                match = _HEAD.fullmatch(head)
                if match is None:
                    raise TreeError("The upload is not a sequence of contents with their sha256.")
                sha256, size = match[1].decode(), int(match[2])
                if sizes.get(sha256) != size:
                    raise TreeError(f"The tree has no file with sha256 {sha256} and {size} bytes.")
                _store_blob(file, place / "blobs" / sha256, size)

    def _read_tree(self, owner: str, digest: str, suffixes: tuple[str, ...]) -> JobTree | None:
        """Return an uploaded tree and update its last-used time; None if it does not exist."""
        with self._lock_user_folder(owner) as place:
            for suffix in suffixes:
                path = place / "trees" / f"{digest}{suffix}"
                if self._touch(path):
                    return tree_document.parse_tree(path.read_bytes())
        return None

    def _read_pieces(self, owner: str, document: bytes, tree: JobTree) -> Iterator[bytes]:
        yield document
        for entry in tree.files:
            with (self._folder / owner / "blobs" / entry.sha256).open("rb") as file:
                while chunk := file.read(_CHUNK):
                    yield chunk

    def _remove_unused_trees(
        self, in_use: Collection[tuple[str, str]], unused_s: float, owner: str | None
    ) -> None:
        if not self._folder.is_dir():
            return
        owners = [folder.name for folder in self._folder.iterdir()] if owner is None else [owner]
        for name in owners:
            with self._lock_user_folder(name) as place:
                used = {digest for user, digest in in_use if user == name}
                expired = [
                    path
                    for path in _by_age(place, _COMPLETE)
                    if path.stem not in used and self._compute_age_s(path) > unused_s
                ]
                partial = [*_by_age(place, _PARTIAL), *place.glob(f"{_INCOMING}*")]
                expired += [path for path in partial if self._compute_age_s(path) > PARTIAL_S]
                _delete_files(expired)
                _remove_unreferenced_blobs(place)

    def _touch(self, path: Path) -> bool:
        """Set the file's modification time, which is the tree's last-used time, to now; return
        False if there is no such file.
        """
        try:
            os.utime(path, (self._now(), self._now()))
        except FileNotFoundError:
            return False
        return True

    def _compute_age_s(self, path: Path) -> float:
        return self._now() - path.stat().st_mtime


def _make_tree_use(digest: str, tree: JobTree) -> TreeUse:
    return TreeUse(
        digest=digest,
        files=len(tree.files) + len(tree.links),
        size_bytes=tree.size_bytes,
        commit=tree.commit,
        dirty=tree.dirty,
    )


def _make_tree_status(digest: str, tree: JobTree, missing: Collection[str]) -> TreeStatus:
    return TreeStatus(**_make_tree_use(digest, tree).model_dump(), missing=tuple(missing))


def _store_blob(file: IO[bytes], target: Path, size: int) -> None:
    """Copy ``size`` bytes from ``file`` to ``target``, after checking that their sha256 is the name
    of ``target``.
    """
    digest, rest = hashlib.sha256(), size
    with tempfile.NamedTemporaryFile(dir=target.parent.parent, prefix=_INCOMING) as fresh:
        while rest:
            chunk = file.read(min(rest, _CHUNK))
            if not chunk:
                raise TreeError("The upload is cut off.")
            rest -= len(chunk)
            digest.update(chunk)
            fresh.write(chunk)
        if digest.hexdigest() != target.name:
            raise TreeError(
                f"A content has the sha256 {digest.hexdigest()} instead of {target.name}: was the "
                "file changed meanwhile? Upload the tree again."
            )
        fresh.flush()
        os.fsync(fresh.fileno())
        if not _has_size(target, size):
            target.unlink(missing_ok=True)
            os.link(fresh.name, target)


async def _write_upload(
    file: IO[bytes], chunks: AsyncIterator[bytes], most_bytes: int, too_large: str
) -> None:
    """Write an upload to ``file``. Raises ``TreeError`` with the message ``too_large`` if it has more
    than ``most_bytes`` bytes.
    """
    written = 0
    async for chunk in chunks:
        written += len(chunk)
        if written > most_bytes:
            raise TreeError(too_large)
        await asyncio.to_thread(file.write, chunk)
    await asyncio.to_thread(file.seek, 0)


def _write_document(path: Path, document: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent.parent, prefix=_INCOMING) as fresh:
        fresh.write(document)
        fresh.flush()
        os.fsync(fresh.fileno())
        path.unlink(missing_ok=True)
        os.link(fresh.name, path)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _by_age(place: Path, suffix: str) -> list[Path]:
    """Return the documents with that suffix, sorted from the least recently used."""
    return sorted(
        (place / "trees").glob(f"*{suffix}"), key=lambda path: (path.stat().st_mtime_ns, path)
    )


def _count_disk_bytes(sizes: Iterable[int]) -> int:
    return sum(-(-size // BLOCK_BYTES) for size in sizes) * BLOCK_BYTES


def _delete_files(paths: Collection[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _remove_unreferenced_blobs(place: Path) -> None:
    """Remove the file contents to which none of the user's trees refers."""
    blobs = {path.name for path in (place / "blobs").glob("*")}
    for document in (place / "trees").glob("*"):
        blobs -= tree_document.parse_tree(document.read_bytes()).blobs.keys()
    _delete_files([place / "blobs" / sha256 for sha256 in blobs])


@contextmanager
def _convert_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        log.error("Trees cannot be stored in %s: %s", folder, error)
        raise Unavailable(
            f"The platform cannot store the tree: {error.strerror or error}. Ask an administrator "
            "to check the platform's data folder."
        ) from error
