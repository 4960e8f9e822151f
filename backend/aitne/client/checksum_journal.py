"""Checksums of files stored on disk while they are computed, so that an interrupted run can resume.

The journal has one line for each file, is only appended to, and an entry is valid only while the
file's stamp is the same. A line that a killed process left incomplete is skipped. If no journal can
be written (full disk, no home), all checksums are computed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time

from aitne.core.dataset_manifest import escape_path, unescape_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO, Self

    from aitne.client.dataset_folder_scan import Stamp
    from aitne.client.file_hashing import HashedFile

LONGEST_AGE_S = 7 * 86_400
"""Age in seconds after which a journal is discarded, because the files on disk may have been
damaged meanwhile."""
FLUSH_S = 0.5
_LINE = re.compile(
    rb"([0-9a-f]{64})\t([0-9]{1,19})\t(-?[0-9]{1,19})\t(-?[0-9]{1,19})\t([0-9]{1,20})\t([^\t]+)"
)


class Journal:
    """Journal of checksums for one purpose (such as ``make``) and one folder; a context manager.

    ``known`` has the checksums of an earlier run by path. If ``folder`` is None, or another process
    with the same purpose is running, no journal is kept.
    """

    def __init__(self, folder: Path | None, purpose: str, root: bytes) -> None:
        name = hashlib.sha256(purpose.encode() + b"\0" + root).hexdigest()
        self.path = None if folder is None else folder / f"{name}.journal"
        self.known: dict[bytes, tuple[Stamp, str]] = {}
        self._file: BinaryIO | None = None
        self._held = False
        self._flushed = 0.0

    def __enter__(self) -> Self:
        if self.path is None:
            return self
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self.path.open("a+b")
        except OSError:
            return self
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = file
            self._held = True
            self._load_checksums(file)
            self._delete_old()
        except OSError:
            self._file = None
            file.close()
        return self

    def __exit__(self, *_: object) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def add(self, hashes: Iterable[HashedFile]) -> None:
        """Append newly computed checksums to the journal."""
        file = self._file
        if file is None:
            return
        lines = "".join(
            "\t".join((file_hash.sha256, *map(str, file_hash.stamp), escape_path(file_hash.path)))
            + "\n"
            for file_hash in hashes
            if file_hash.sha256 is not None and not file_hash.known
        )
        try:
            file.write(lines.encode())
            if time.monotonic() - self._flushed > FLUSH_S:
                file.flush()
                self._flushed = time.monotonic()
        except OSError:
            self.__exit__()

    def remove(self) -> None:
        """Delete the journal, after the run has completed."""
        if self.path is not None and self._held:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._held = False

    def _load_checksums(self, file: BinaryIO) -> None:
        if _is_old(os.fstat(file.fileno())):
            file.truncate(0)
        file.seek(0)
        complete = True
        for line in file:
            complete = line.endswith(b"\n")
            match = _LINE.fullmatch(line[:-1]) if complete else None
            if match is None:
                continue
            try:
                path = unescape_path(match[6])
            except ValueError:
                continue
            size, changed, altered, inode = (int(number) for number in match.groups()[1:5])
            self.known[path] = ((size, changed, altered, inode), match[1].decode())
        if not complete:
            # The next entry must not continue the incomplete line.
            file.write(b"\n")

    def _delete_old(self) -> None:
        """Delete journals older than ``LONGEST_AGE_S`` of runs that were not resumed."""
        if self.path is None:
            return
        for other in self.path.parent.glob("*.journal"):
            if other != self.path and _is_old(other.stat()):
                other.unlink()


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > LONGEST_AGE_S
