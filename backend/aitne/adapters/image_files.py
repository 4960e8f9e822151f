"""Check of image files before the catalogue registers them."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from typing_extensions import override

from aitne.core.errors import InvalidInput
from aitne.core.models.image import Artifact
from aitne.core.ports.catalogue_files import ImageFiles

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ImagesFolder(ImageFiles):
    """Implementation of ``core.ports.catalogue_files.ImageFiles`` for files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def checked(self, claim: Artifact, field: str) -> Artifact:
        if claim.path is None:
            return claim
        return _checked(claim, _inside(claim.path, self._folder, field), field)


def _checked(claim: Artifact, path: str, field: str) -> Artifact:
    try:
        # Not blocking, for the time that somebody has put a pipe there.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            _check_file(found, path, field)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidInput.field(
            field, f"the platform cannot read it: {error.strerror or error}", value=path
        ) from error
    if (after.st_size, after.st_mtime_ns) != (found.st_size, found.st_mtime_ns):
        raise InvalidInput.field(field, "it changed while it was read; try again", value=path)
    if digest != claim.digest:
        raise InvalidInput.field(
            field,
            f"its content is {digest}, which is not what was claimed; build or copy it again",
            value=claim.digest,
        )
    return claim.model_copy(
        update={"path": path, "size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns}
    )


def _inside(given: str, folder: Path, field: str) -> str:
    """Return the path if only the platform can change the folders that lead to it.

    Raises:
        InvalidInput: it lies elsewhere, or others can write to a folder on the way.
    """
    allowed = f"a file below {folder}"
    path = Path(given)
    if path == folder or not path.is_relative_to(folder) or ".." in path.parts:
        raise InvalidInput.field(
            field, "it does not lie in the images' folder", value=given, allowed=allowed
        )
    try:
        for each in (folder, *reversed(path.relative_to(folder).parents[:-1])):
            where = folder / each
            found = where.lstat() if where != folder else where.stat()
            if not stat.S_ISDIR(found.st_mode):
                raise InvalidInput.field(
                    field, f"{where} is no folder", value=given, allowed=allowed
                )
            _check_writers(found, str(where), field)
    except OSError as error:
        raise InvalidInput.field(
            field, f"the platform cannot look at it: {error.strerror or error}", value=given
        ) from error
    return str(path)


def _check_file(found: os.stat_result, path: str, field: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput.field(field, "it is not a regular file", value=path)
    _check_writers(found, path, field)


def _check_writers(found: os.stat_result, path: str, field: str) -> None:
    if found.st_mode & _OTHERS:
        raise InvalidInput.field(
            field,
            f"others may write to {path} and could change the image later; run `chmod go-w {path}`",
            value=f"{stat.S_IMODE(found.st_mode):o}",
        )
    if found.st_uid not in (0, os.geteuid()):
        raise InvalidInput.field(
            field,
            f"{path} belongs to the uid {found.st_uid}, who could change the image later; give it to "
            f"root: `chown root {path}`",
            value=found.st_uid,
        )
