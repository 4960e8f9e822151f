"""Files of users, read with the rights of this process.

``OwnAccountFiles`` implements the port for a platform whose jobs run as its own account. The
functions below it are for a process that already runs as the account, such as the broker's per-user
helper. What a job has put into its folder may be anything: a pipe, a device, a link that leads in a
circle, a million names, a file that is written while it is read.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn, TypeVar

from aitne.adapters.path_facts import TimeoutExecutor, find_mount_point
from aitne.adapters.trusted_job_folder import FOLDER, open_descriptor
from aitne.core.errors import ChangedMeanwhile, Conflict, NotAllowed, NotFound, Unavailable
from aitne.core.models.stored_file import FileKind, FileList, StoredFile, make_file_version
from aitne.core.path_encoding import decode_path, encode_path, shown_name
from aitne.core.ports.account_files import MAX_NAMES, MAX_PAGE, FileRoot

# A pipe that takes the file's place is not waited for, and a terminal not taken over.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_FORBIDDEN = (errno.EACCES, errno.EPERM)

T = TypeVar("T")


class OwnAccountFiles:
    """Implementation of ``core.ports.account_files.AccountFiles`` with the rights of the calling
    process. A file system that hangs delays only requests for its own files.
    """

    def __init__(self) -> None:
        self._patience = TimeoutExecutor()

    async def get_entry(self, root: FileRoot, path: str) -> StoredFile:
        """Return the entry at ``path``."""
        return await self._run_task(root, partial(get_entry, root.folder, path))

    async def list_folder(self, root: FileRoot, path: str, *, after: str, limit: int) -> FileList:
        """Return up to ``limit`` entries of the folder whose names follow ``after``."""
        task = partial(list_folder, root.folder, path, after=after, limit=limit)
        return await self._run_task(root, task)

    async def read_part(
        self, root: FileRoot, path: str, *, etag: str, offset: int, limit: int
    ) -> bytes:
        """Return up to ``limit`` bytes of the file from byte ``offset`` on."""
        task = partial(read_part, root.folder, path, etag=etag, offset=offset, limit=limit)
        return await self._run_task(root, task)

    async def _run_task(self, root: FileRoot, task: Callable[[], T]) -> T:
        if root.account is not None:
            raise NotAllowed(
                f"This platform cannot read files as {root.account}: it has no broker. Set "
                "broker.socket, or use the platform that submitted the job."
            )
        tasks = [(find_mount_point(root.folder), task)]
        (result,) = await asyncio.to_thread(self._patience.gather, tasks)
        if result is None:
            raise Unavailable(
                f"The file system of {root.folder} does not answer. Try again later; ask an "
                "administrator to check it."
            )
        return result


def get_entry(folder: str, path: str) -> StoredFile:
    """Return the entry at ``path`` below ``folder``.

    Raises:
        NotFound: there is no such entry, or only a link that leads nowhere.
        NotAllowed: this process may not enter a folder on the way.
        Unavailable: the file system reports an error.
    """
    name = decode_path(path)
    with _convert_errors(folder, path), open_descriptor(folder, FOLDER) as root:
        facts = os.stat(name or b".", dir_fd=root)
        link = bool(name) and stat.S_ISLNK(os.lstat(name, dir_fd=root).st_mode)
        return _to_stored_file(name.rpartition(b"/")[2], facts, link=link)


def list_folder(folder: str, path: str, *, after: str, limit: int) -> FileList:
    """Return up to ``limit`` entries, in the order of their names' bytes, of the folder at ``path``
    below ``folder``, whose names follow ``after``.

    Raises:
        NotFound: there is no such entry.
        NotAllowed: this process may not list the folder.
        Conflict: the entry is no folder, or has more than ``MAX_NAMES`` entries.
        Unavailable: the file system reports an error.
    """
    below, last, limit = decode_path(path), decode_path(after), max(1, min(limit, MAX_PAGE))
    with (
        _convert_errors(folder, path, wants=FileKind.FOLDER),
        open_descriptor(folder, FOLDER) as root,
        open_descriptor(below or b".", FOLDER, root) as descriptor,
    ):
        names = heapq.nsmallest(
            limit + 1, (name for name in _list_entry_names(descriptor, path) if name > last)
        )
        items = tuple(_read_listed_entry(name, descriptor) for name in names[:limit])
    more = len(names) > limit
    return FileList(items=items, next_cursor=encode_path(names[limit - 1]) if more else None)


def read_part(folder: str, path: str, *, etag: str, offset: int, limit: int) -> bytes:
    """Return up to ``limit`` bytes, from byte ``offset`` on, of the file at ``path`` below
    ``folder``. Nothing beyond the size that the file system states is read, so that the endless or
    made-up files of ``/proc`` are empty.

    Raises:
        NotFound: there is no such entry.
        NotAllowed: this process may not read the file.
        Conflict: the entry is no regular file.
        ChangedMeanwhile: the file does not have this ``etag``.
        Unavailable: the file system reports an error.
    """
    name = decode_path(path)
    with _convert_errors(folder, path), open_descriptor(folder, FOLDER) as root:
        # Some devices do something when they are opened.
        if not stat.S_ISREG(os.stat(name or b".", dir_fd=root).st_mode):
            _raise_no_file(path)
        with open_descriptor(name, _FILE, root) as file:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                _raise_no_file(path)
            length = max(0, min(limit, before.st_size - offset))
            data = b""
            while len(data) < length:
                part = os.pread(file, length - len(data), offset + len(data))
                if not part:
                    break
                data += part
            if (
                len(data) < length
                or not _make_version(before) == _make_version(os.fstat(file)) == etag
            ):
                raise ChangedMeanwhile(
                    f"The file {shown_name(name)} was changed while it was read. Try again when "
                    "the job has finished writing it."
                )
            return data


def _list_entry_names(folder: int, path: str) -> Iterator[bytes]:
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_NAMES:
                raise Conflict(
                    f"The folder {shown_name(decode_path(path)) or '.'} has more than {MAX_NAMES} "
                    "entries, the most that are listed. Name the files, or have a job pack the "
                    "folder into one file."
                )
            yield os.fsencode(entry.name)


def _read_listed_entry(name: bytes, folder: int) -> StoredFile:
    """Return the entry ``name`` of an open folder. One that vanishes or leads nowhere is of the
    kind ``other``."""
    try:
        facts = os.lstat(name, dir_fd=folder)
    except OSError:
        return _make_unknown_entry(name, link=False)
    if not stat.S_ISLNK(facts.st_mode):
        return _to_stored_file(name, facts, link=False)
    try:
        return _to_stored_file(name, os.stat(name, dir_fd=folder), link=True)
    except OSError:
        return _make_unknown_entry(name, link=True)


def _to_stored_file(name: bytes, facts: os.stat_result, *, link: bool) -> StoredFile:
    is_file = stat.S_ISREG(facts.st_mode)
    kind = FileKind.FOLDER if stat.S_ISDIR(facts.st_mode) else FileKind.OTHER
    return StoredFile(
        name=shown_name(name),
        path=encode_path(name),
        kind=FileKind.FILE if is_file else kind,
        link=link,
        size_bytes=facts.st_size if is_file else None,
        modified_at=_to_datetime(facts.st_mtime_ns),
        etag=_make_version(facts) if is_file else None,
    )


def _make_unknown_entry(name: bytes, *, link: bool) -> StoredFile:
    path = encode_path(name)
    return StoredFile(name=shown_name(name), path=path, kind=FileKind.OTHER, link=link)


def _make_version(facts: os.stat_result) -> str:
    return make_file_version(
        facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    )


def _to_datetime(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)
    except (OverflowError, OSError, ValueError):  # a user may set any time
        return None


def _raise_no_file(path: str) -> NoReturn:
    raise Conflict(
        f"{shown_name(decode_path(path)) or '.'} is not a regular file, so it cannot be read."
    )


@contextmanager
def _convert_errors(folder: str, path: str, *, wants: FileKind = FileKind.FILE) -> Iterator[None]:
    """Convert an ``OSError`` in the ``with`` block to an error of the port."""
    name = shown_name(decode_path(path))
    try:
        yield
    except OSError as error:
        where = f"{name} in {folder}" if name else folder
        if error.errno == errno.ENOTDIR and wants is FileKind.FOLDER and name:
            raise Conflict(f"{where} is not a folder.") from error
        if error.errno in _ABSENT:
            raise NotFound(
                "file" if wants is FileKind.FILE else "folder",
                name,
                f"There is no {'file or folder' if name else 'folder'} {where}: the job has not written it, or it was removed.",
            ) from error
        if error.errno in _FORBIDDEN:
            raise NotAllowed(
                f"The account of the job may not read {where} ({error.strerror})."
            ) from error
        raise Unavailable(f"{where} cannot be read: {error.strerror or error}.") from error
