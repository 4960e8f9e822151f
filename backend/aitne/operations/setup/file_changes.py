"""Comparison of the rendered files with those on the disk, and their atomic replacement."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.operations.setup.rendering import File, Folder

_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]*@")


class FileState(StrEnum):
    """Difference of a file on the disk from the rendered one."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    UNREADABLE = "unreadable"
    """It exists and this account may not read it, so that it cannot be compared."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A rendered file, compared with the one on the disk."""

    file: File
    path: Path
    """Path on the disk, below the root."""
    state: FileState
    diff: str = ""
    """Unified diff, with passwords of URLs replaced."""
    wrong_mode: bool = False
    """True if the content is as rendered, and mode or owner are not."""


def get_path_below(root: str, path: str) -> Path:
    """Return the place of an absolute path below ``root``."""
    return Path(root) / path.lstrip("/")


def read_group_ids(root: str) -> dict[str, int]:
    """Return the gids of the local groups of the system below ``root``, by name."""
    try:
        lines = get_path_below(root, "/etc/group").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    rows = (line.split(":") for line in lines)
    return {row[0]: int(row[2]) for row in rows if len(row) >= 3 and row[2].isdecimal()}


def compare_files(files: Sequence[File], root: str, gids: Mapping[str, int]) -> list[FileChange]:
    """Return each file with its difference from the disk. Nothing is changed.

    Raises:
        SetupError: a path is a folder or a link, which is never replaced.
    """
    changes = []
    for file in files:
        path = get_path_below(root, file.path)
        try:
            facts = path.lstat()
            current = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            changes.append(FileChange(file, path, FileState.CREATED, _make_diff(file, "")))
            continue
        except PermissionError:
            changes.append(FileChange(file, path, FileState.UNREADABLE))
            continue
        except OSError as error:
            raise SetupError(f"{path} cannot be replaced: {error.strerror}.") from error
        if path.is_symlink():
            raise SetupError(f"{path} is a link. Replace it by a file, or remove it.")
        if current != file.text:
            changes.append(FileChange(file, path, FileState.CHANGED, _make_diff(file, current)))
            continue
        gid = gids.get(file.group)
        wrong = facts.st_mode & 0o7777 != file.mode
        if os.geteuid() == 0:
            wrong |= facts.st_uid != 0 or (gid is not None and facts.st_gid != gid)
        changes.append(FileChange(file, path, FileState.UNCHANGED, wrong_mode=wrong))
    return changes


def list_missing_folders(folders: Iterator[Folder], root: str) -> list[Folder]:
    """Return the folders that do not exist below ``root``."""
    return [folder for folder in folders if not _is_folder(get_path_below(root, folder.path))]


def make_folder(folder: Folder, root: str, uid: int, gid: int) -> None:
    """Create a folder with its owner and mode.

    Raises:
        SetupError: it cannot be created.
    """
    path = get_path_below(root, folder.path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(path, uid, gid)
        path.chmod(folder.mode)
    except OSError as error:
        raise SetupError(
            f"The folder {path} cannot be created: {error.strerror}. Create it on the machine that "
            "exports its file system, then try again."
        ) from error


def write_files(changes: Collection[FileChange], gids: Mapping[str, int]) -> list[Path]:
    """Write the files of these changes: all of them, or none if one fails.

    Replaced files have a copy beside them, with the time in its name.

    Returns:
        The copies.

    Raises:
        SetupError: a file cannot be written; the earlier content of the others is in place again.
    """
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    copies: dict[Path, Path] = {}
    staged: dict[Path, Path] = {}
    replaced: list[Path] = []
    try:
        for change in changes:
            change.path.parent.mkdir(parents=True, exist_ok=True)
            staged[change.path] = _write_staged_file(change.file, change.path, gids)
        for change in changes:
            if change.state is FileState.CHANGED:
                copies[change.path] = _make_backup_copy(change.path, stamp)
        for path, temporary in staged.items():
            temporary.replace(path)
            replaced.append(path)
    except BaseException as error:
        created = {change.path for change in changes if change.state is FileState.CREATED}
        for path in replaced:
            if path in created:
                path.unlink(missing_ok=True)
            elif path in copies:
                copies.pop(path).replace(path)
        for left_over in (*staged.values(), *copies.values()):
            left_over.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SetupError(
                f"{error.filename2 or error.filename} cannot be written: {error.strerror}. "
                "No file was changed."
            ) from error
        raise
    return list(copies.values())


def _make_diff(file: File, current: str) -> str:
    lines = difflib.unified_diff(
        _mask_passwords(current).splitlines(keepends=True),
        _mask_passwords(file.text).splitlines(keepends=True),
        fromfile=file.path if current else "/dev/null",
        tofile=file.path,
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _mask_passwords(text: str) -> str:
    return _PASSWORD.sub(r"\1***@", text)


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir()
    return True  # it is below a folder that is closed to this account


def _write_staged_file(file: File, path: Path, gids: Mapping[str, int]) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as target:
            if os.geteuid() == 0:
                os.fchown(target.fileno(), 0, gids.get(file.group, 0))
            os.fchmod(target.fileno(), file.mode)
            target.write(file.text)
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _make_backup_copy(path: Path, stamp: str) -> Path:
    """Copy a file beside itself, with its mode and owner; the name ends with the time."""
    facts = path.stat()
    copy = path.with_name(f"{path.name}.{stamp}.bak")
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(path.read_bytes())
        if os.geteuid() == 0:
            os.fchown(target.fileno(), facts.st_uid, facts.st_gid)
        os.fchmod(target.fileno(), facts.st_mode & 0o7777)
    return copy
