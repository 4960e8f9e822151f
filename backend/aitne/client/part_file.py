"""Incomplete file of a download, beside its target."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager, suppress

from aitne.client.api_session import quote_segment
from aitne.core.errors import AitneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_SUFFIX = ".part"
_NONE = -1


class LocalFileError(AitneError):
    """A file of this machine cannot be written, or another download writes it."""

    code = "local_file"


class PartFile:
    """Incomplete file, whose name contains the entity tag of the version that it is part of. While
    it is open, no other process writes it.
    """

    def __init__(self, folder: str, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._file = _NONE
        self._path = ""
        self.etag = ""
        self.counted = self.done = 0
        """Bytes of this file in the progress: in all, and received."""
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(_SUFFIX):
                self._open_version(name[len(prefix) : -len(_SUFFIX)])
                return

    @property
    def size(self) -> int:
        """Number of bytes that were received; 0 if there are none."""
        return 0 if self._file == _NONE else os.fstat(self._file).st_size

    def begin(self, etag: str, start: int) -> None:
        """Continue after ``start`` bytes of the version ``etag``; 0: begin anew."""
        if start == 0:
            self._discard_file()
            self._open_version(etag)
        os.ftruncate(self._file, start)
        os.lseek(self._file, start, os.SEEK_SET)

    def write(self, data: bytes) -> None:
        """Append data. Raises ``OSError``."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def finish(self, target: str, modified: float | None) -> None:
        """Rename the complete file to ``target``, with its time of change. Raises ``OSError``."""
        if modified is not None:
            os.utime(self._file, (modified, modified))
        os.replace(self._path, target)
        os.close(self._file)
        self._file = _NONE

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        if self._file != _NONE and self.size == 0:
            self._discard_file()
        if self._file != _NONE:
            os.close(self._file)
            self._file = _NONE

    def _open_version(self, etag: str) -> None:
        path = os.path.join(self._folder, f"{self._prefix}{quote_segment(etag)}{_SUFFIX}")
        file = os.open(path, _FLAGS, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise LocalFileError(
                f"Another download writes {path}. Wait for it, or end it."
            ) from None
        except OSError:
            pass  # this file system has no locks
        self._file, self._path, self.etag = file, path, etag

    def _discard_file(self) -> None:
        if self._file != _NONE:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._file)
            self._file = _NONE


@contextmanager
def open_part_file(target: str, path: str) -> Iterator[PartFile]:
    """Open the incomplete file of a download for the ``with`` block; it is kept if it has data.

    Args:
        target: local path of the complete file.
        path: path below the job's folder.

    Raises:
        LocalFileError: another process downloads the same file.
        OSError: the folder of ``target`` cannot be read or written.
    """
    digest = hashlib.sha256(path.encode()).hexdigest()[:16]
    part = PartFile(os.path.dirname(target) or ".", f".aitne-{digest}-")
    try:
        yield part
    finally:
        part.close()
