"""Check of container image files before they are registered in the catalogue."""

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
    """Implementation of ``core.ports.catalogue_files.ImageFiles`` for image files below
    ``folder``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def check_artifact(self, claim: Artifact, field: str) -> Artifact:
        if claim.path is None:
            return claim
        return _check_artifact(claim, _check_parent_folders(claim.path, self._folder, field), field)


def _check_artifact(claim: Artifact, path: str, field: str) -> Artifact:
    try:
        # Non-blocking, in case the path is a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(descriptor)
            _check_file(info, path, field)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidInput.field(
            field, f"the platform cannot read it: {error.strerror or error}", value=path
        ) from error
    if (after.st_size, after.st_mtime_ns) != (info.st_size, info.st_mtime_ns):
        raise InvalidInput.field(field, "it changed while it was read; try again", value=path)
    if digest != claim.digest:
        raise InvalidInput.field(
            field,
            f"its digest is {digest} and not the registered one; build or copy it again",
            value=claim.digest,
        )
    return claim.model_copy(
        update={"path": path, "size_bytes": info.st_size, "mtime_ns": info.st_mtime_ns}
    )


def _check_parent_folders(path_text: str, folder: Path, field: str) -> str:
    """Check that only the platform can change the folders that lead to the path, and return it.
    ``field`` is the request's field that errors name.

    Raises:
        InvalidInput: the path is outside ``folder``, or other users can write to a folder of its
            path.
    """
    allowed = f"a file below {folder}"
    path = Path(path_text)
    if path == folder or not path.is_relative_to(folder) or ".." in path.parts:
        raise InvalidInput.field(
            field, "it is not in the images' folder", value=path_text, allowed=allowed
        )
    try:
        for part in (folder, *reversed(path.relative_to(folder).parents[:-1])):
            parent = folder / part
            info = parent.lstat() if parent != folder else parent.stat()
            if not stat.S_ISDIR(info.st_mode):
                raise InvalidInput.field(
                    field, f"{parent} is not a folder", value=path_text, allowed=allowed
                )
            _check_writers(info, str(parent), field)
    except OSError as error:
        raise InvalidInput.field(
            field, f"the platform cannot inspect it: {error.strerror or error}", value=path_text
        ) from error
    return str(path)


def _check_file(info: os.stat_result, path: str, field: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise InvalidInput.field(field, "it is not a regular file", value=path)
    _check_writers(info, path, field)


def _check_writers(info: os.stat_result, path: str, field: str) -> None:
    if info.st_mode & _OTHERS:
        raise InvalidInput.field(
            field,
            f"other users can write to {path} and change the image later; run `chmod go-w {path}`",
            value=f"{stat.S_IMODE(info.st_mode):o}",
        )
    if info.st_uid not in (0, os.geteuid()):
        raise InvalidInput.field(
            field,
            f"{path} belongs to uid {info.st_uid}, which could change the image later; make root "
            f"its owner: `chown root {path}`",
            value=info.st_uid,
        )
