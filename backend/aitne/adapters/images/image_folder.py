"""The folder of image files. Files are moved into it only when they are complete, and their checks
read the whole content.

A file is written in a folder named ``.making-…``; at last it is renamed to its final name, which
contains the first digits of its digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aitne.adapters.images.image_build_log import format_os_error
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import InvalidInput, SetupError
from aitne.core.models.image import Artifact

APPTAINER = "apptainer"
REPORT_EVERY_S = 2.0
SCRATCH = "aitne-image-"
"""Prefix of folders for temporary files."""
_MAKING = ".making-"
_CHUNK = 1 << 22
_ABANDONED_S = 86_400
_SETTLED_S = 3_600
"""Age in seconds below which an unregistered file is not reported as a leftover: its registration
may be in progress.
"""
Seen = Callable[[int, int], None]
"""Progress callback, which is called every few seconds with the number of bytes read so far and the
total number of bytes.
"""


@dataclass(frozen=True, slots=True)
class Leftover:
    """File or folder of an aborted build or import, or an image file that is not in the
    catalogue."""

    path: Path
    """Path of the file or folder."""
    size_bytes: int
    """Size in bytes."""


class ImageFolder:
    """The folder of image files (``settings.images_dir``). Constructing the object writes
    nothing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def create_work_folder(self) -> Iterator[Path]:
        """Yield a new folder for unfinished files; it is removed at the end of the ``with`` block.

        Raises:
            SetupError: the images' folder cannot be written to.
        """
        try:
            self._create_folder()
            folder = Path(tempfile.mkdtemp(prefix=_MAKING, dir=self.root))
            folder.chmod(0o755)
        except OSError as error:
            raise SetupError(
                f"The images' folder {self.root} cannot be written: {format_os_error(error)}. Run this as "
                "an account that can write there, or set [containers] images_dir."
            ) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def check_space(self, needed: int) -> None:
        """Raise ``SetupError`` if fewer than ``needed`` bytes are free on the disk of the folder."""
        place = self.root
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        if free < needed:
            raise SetupError(
                f"{self.root} needs {describe_bytes(needed, 'up')} for the image, and "
                f"{describe_bytes(free, 'down')} are free. "
                "`aitne admin image gc` removes unused files."
            )

    def add_file(self, made: Path, name: str, version: str) -> Artifact:
        """Move the finished file ``made`` to its final name in the folder, so that jobs can use it.

        Raises ``OSError``.
        """
        digest = digest_of(made)
        final = self.root / f"{name}-{version}-{digest.removeprefix('sha256:')[:12]}.sif"
        made.chmod(0o644)
        os.utime(made)  # `leftovers` counts from here: reading and testing it may have taken hours
        if os.geteuid() == 0:
            os.chown(made, 0, 0)
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
        made.replace(final)
        info = final.stat()
        return Artifact(
            runtime=APPTAINER,
            digest=digest,
            size_bytes=info.st_size,
            path=str(final),
            mtime_ns=info.st_mtime_ns,
        )

    def contains(self, path: Path) -> bool:
        """Return whether ``path`` is directly in this folder. The file need not exist."""
        return path.parent == self.root

    def find_leftovers(self, known_paths: Collection[Path]) -> list[Leftover]:
        """Return the files and folders in the images' folder that are not in ``known_paths`` (the
        files in the catalogue) and are too old to belong to a build or registration in progress.
        """
        if not self.root.is_dir():
            return []
        leftovers = []
        # Compared by identity, not by name: the settings may name the folder by another path now.
        used = {_get_file_identity(path) for path in known_paths}
        for path in sorted(self.root.iterdir()):
            info = path.lstat()
            age_s = time.time() - info.st_mtime
            if path.name.startswith(_MAKING) and path.is_dir():
                if age_s > _ABANDONED_S:
                    leftovers.append(Leftover(path, size_of(path)))
            elif (
                path.suffix == ".sif"
                and _get_file_identity(path) not in used
                and age_s > _SETTLED_S
            ):
                leftovers.append(Leftover(path, info.st_size))
        return leftovers

    def _create_folder(self) -> None:
        if not self.root.is_dir():
            self.root.mkdir(parents=True)
            self.root.chmod(0o755)


def find_abandoned(tmp: Path) -> list[Leftover]:
    """Return the temporary folders in ``tmp`` that belong to aborted builds and imports of this
    account. Folders that may still be in use, because they are too young, are omitted.
    """
    leftovers = []
    for path in sorted(tmp.glob(f"{SCRATCH}*")):
        info = path.lstat()
        ours = info.st_uid == os.geteuid() and stat.S_ISDIR(info.st_mode)
        if ours and time.time() - info.st_mtime > _ABANDONED_S:
            leftovers.append(Leftover(path, size_of(path)))
    return leftovers


def _get_file_identity(path: Path) -> tuple[int, int] | Path:
    """Return a value that is the same for all paths of a file: its device and inode numbers. For a
    file that cannot be accessed, return the path.
    """
    try:
        info = path.stat()
    except OSError:
        return path
    return info.st_dev, info.st_ino


def remove_path(path: Path) -> int:
    """Remove a file or a folder and return the number of bytes that this freed; 0 if it is missing.

    Raises ``OSError``.
    """
    try:
        info = path.lstat()
    except FileNotFoundError:
        return 0
    if path.is_dir() and not path.is_symlink():
        size = size_of(path)
        shutil.rmtree(path)
        return size
    path.unlink()
    return info.st_size


def size_of(folder: Path) -> int:
    """Return the total size of the files in a folder, in bytes. Raises ``OSError``."""
    return sum(
        os.lstat(os.path.join(parent, name)).st_size
        for parent, _, names in os.walk(folder)
        for name in names
    )


def digest_of(path: Path, progress: Seen | None = None) -> str:
    """Return the digest ``sha256:…`` of a file's content. ``progress`` is called every few seconds
    with the numbers of bytes read and of all bytes. Raises ``OSError``.
    """
    digest = hashlib.sha256()
    last = time.monotonic()
    with path.open("rb", buffering=0) as stream:
        size, read_bytes = os.fstat(stream.fileno()).st_size, 0
        with suppress(OSError):  # not every file system takes advice
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        buffer = memoryview(bytearray(_CHUNK))
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
            read_bytes += count
            if progress is not None and time.monotonic() - last > REPORT_EVERY_S:
                last = time.monotonic()
                progress(read_bytes, size)
    return f"sha256:{digest.hexdigest()}"


def find_damage(artifact: Artifact, progress: Seen | None = None) -> str | None:
    """Return a sentence about the damage to an artifact's file, such as a changed digest; None if
    the file is unchanged.

    Raises:
        SetupError: this account cannot read the file, so its state is unknown.
    """
    if artifact.path is None:
        return None
    path = Path(artifact.path)
    try:
        size = path.stat().st_size
        if size != artifact.size_bytes:
            return f"{path} has {size} bytes instead of {artifact.size_bytes}."
        digest = digest_of(path, progress)
    except FileNotFoundError:
        return f"{path} is missing."
    except PermissionError as error:
        raise SetupError(f"This account may not read {path}: run this as root.") from error
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}."
    if digest != artifact.digest:
        return f"The content of {path} has changed: it is {digest} instead of {artifact.digest}."
    return None


def check_digest(expected: str | None, actual: str, source: Path) -> None:
    """Raise ``InvalidInput`` if ``expected`` is given and differs from ``actual``, the digest of
    ``source``.
    """
    if expected is not None and expected != actual:
        raise InvalidInput.field(
            "--digest", f"{source} is {actual}; it is not the expected file", value=expected
        )
