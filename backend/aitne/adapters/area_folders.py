"""Creation of the folders of users and projects in places that other users may try to manipulate,
for example with symbolic links.
"""

from __future__ import annotations

import errno
import grp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePath

from aitne.adapters.storage._mounts import Mounts
from aitne.adapters.unix_account_mapping import UnixUser
from aitne.core.errors import SetupError
from aitne.core.models.storage_area import Area, AreaKind

_USER_MODE = 0o700
_PROJECT_MODE = 0o2770
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Refused(Exception):
    """Error: a folder must not be created; the message is a sentence with the reason."""


@dataclass(frozen=True, slots=True)
class _Ownership:
    uid: int
    gid: int
    mode: int


def create_area_folder(area: Area, user: UnixUser, mounts: Mounts | None = None) -> str | None:
    """Create the folder of a storage area if it is missing; return a sentence about what is wrong
    with it, or None if it is correct.

    The folder of a user belongs to that user alone (0700), that of a project to root and the Unix
    group of the project's name (2770), which the user must be in. The parent folder must exist
    already and belong to root or to this process's own account, so that no other user can put
    anything in its place. Symbolic links are not followed. An existing folder is never changed. The
    call blocks while the file system hangs.
    """
    path = PurePath(area.path)
    try:
        # An automounter mounts on access.
        with suppress(OSError):
            os.stat(path.parent)
        missing = (mounts or Mounts()).find_missing_mount(area)
        if missing is not None:
            raise _Refused(
                f"{path} is not created: no file system is mounted at {missing} on this machine. "
                "Mount it."
            )
        ownership = _find_ownership(area, user)
        with _open_parent(path) as parent:
            try:
                os.mkdir(path.name, 0o700, dir_fd=parent)
            except FileExistsError:
                return _find_problem(path, parent, ownership, area)
            _set_ownership(path.name, parent, ownership)
    except _Refused as refusal:
        return str(refusal)
    except OSError as error:
        location = error.filename or path.name
        return (
            f"{path} cannot be created: {error.strerror} ({location}). Ask an administrator to "
            "create it."
        )
    return None


def check_only_root_writes(folder: PurePath) -> None:
    """Check that only root can replace the folder or create anything in it: the folder and all its
    parents, as far as they exist, must belong to root and be writable by root alone.

    Raises:
        SetupError: another account can write to one of them; the message names it.
    """
    here = os.open("/", _STEP)
    try:
        passed = PurePath("/")
        for name in folder.parts[1:]:
            passed /= name
            try:
                below = os.open(name, _STEP, dir_fd=here)
            except FileNotFoundError:
                return
            os.close(here)
            here = below
            facts = os.fstat(here)
            writable = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            sticky = facts.st_mode & stat.S_ISVTX and passed != folder
            if facts.st_uid != 0 or (writable and not sticky):
                raise SetupError(
                    f"{passed} belongs to uid {facts.st_uid} (mode "
                    f"{stat.S_IMODE(facts.st_mode):04o}), so other accounts than root could replace "
                    f"what is in {folder}. Make root its only writer, or set another folder."
                )
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be used: {passed} is a link or not a folder ({error.strerror}). Set the "
            "real path of a folder that only root can write to."
        ) from error
    finally:
        os.close(here)


def _find_ownership(area: Area, user: UnixUser) -> _Ownership:
    if area.kind is AreaKind.USER:
        return _Ownership(user.uid, user.gid, _USER_MODE)
    group = area.project or ""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise _Refused(
            f"{area.path} is not created: there is no Unix group {group} on this machine that it "
            "could belong to. Ask an administrator to create that group or the folder."
        ) from None
    if gid not in user.groups:
        raise _Refused(
            f"{area.path} is not created: {user.name} is not in the Unix group {group} that it "
            "would belong to. Ask an administrator to add the account to the group."
        )
    return _Ownership(os.geteuid(), gid, _PROJECT_MODE)


@contextmanager
def _open_parent(path: PurePath) -> Iterator[int]:
    """Open the parent folder of ``path`` for the ``with`` block, by opening each component from
    ``/`` on.
    """
    here = os.open("/", _STEP)
    try:
        passed = PurePath("/")
        for name in path.parent.parts[1:]:
            passed /= name
            below = _open_component(name, here, passed, path)
            os.close(here)
            here = below
            _check_not_replaceable(here, passed, path)
        yield here
    finally:
        os.close(here)


def _open_component(name: str, here: int, passed: PurePath, path: PurePath) -> int:
    try:
        return os.open(name, _STEP, dir_fd=here)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise _Refused(
                f"{path} is not created: the folder {passed} does not exist. Ask an administrator "
                "to create or mount it."
            ) from None
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _Refused(
                f"{path} is not created: {passed} is a link or not a folder, and links are not "
                "followed here. Use the real path in the settings."
            ) from None
        raise


def _check_not_replaceable(folder: int, passed: PurePath, path: PurePath) -> None:
    """Check that no other user could replace what is created in ``folder``. Raises ``_Refused``."""
    facts = os.fstat(folder)
    writable = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
    if facts.st_uid not in (0, os.geteuid()) or writable:
        raise _Refused(
            f"{path} is not created: {passed} belongs to uid {facts.st_uid} (mode "
            f"{stat.S_IMODE(facts.st_mode):04o}), so other users could replace the folder. Ask an "
            "administrator to make root its only writer, or to create the folder."
        )


def _set_ownership(name: str, parent: int, ownership: _Ownership) -> None:
    try:
        folder = os.open(name, _OPEN, dir_fd=parent)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise _Refused(f"{name} was replaced while it was created.")
            # This order requires no capability but CAP_CHOWN: the set-group-ID bit is kept for a
            # group of the process, and a change of the owner keeps a folder's mode.
            _change_owner(folder, os.geteuid(), os.getegid())
            os.fchmod(folder, ownership.mode)
            _change_owner(folder, ownership.uid, ownership.gid)
        finally:
            os.close(folder)
    except OSError:
        # The folder is empty and not yet handed over; the next attempt creates it again.
        with suppress(OSError):
            os.rmdir(name, dir_fd=parent)
        raise


def _change_owner(folder: int, uid: int, gid: int) -> None:
    facts = os.fstat(folder)
    if (facts.st_uid, facts.st_gid) != (uid, gid):
        os.fchown(folder, uid, gid)


def _find_problem(path: PurePath, parent: int, ownership: _Ownership, area: Area) -> str | None:
    """Return a sentence about what is wrong with the type, owner or mode of an existing folder, or
    None if it is correct.
    """
    facts = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISLNK(facts.st_mode):
        facts = os.stat(path.name, dir_fd=parent)
    mode = stat.S_IMODE(facts.st_mode)
    if not stat.S_ISDIR(facts.st_mode):
        return f"{path} is not a folder. It was not changed; ask an administrator to check it."
    if area.kind is AreaKind.USER and facts.st_uid != ownership.uid:
        return (
            f"{path} belongs to uid {facts.st_uid} instead of {ownership.uid}. It was not changed; "
            f"`chown {ownership.uid}:{ownership.gid} {path}` corrects this."
        )
    if area.kind is AreaKind.PROJECT and facts.st_gid != ownership.gid:
        return (
            f"{path} belongs to the group {facts.st_gid} instead of {ownership.gid}. It was not "
            f"changed; `chgrp {ownership.gid} {path}` corrects this."
        )
    others = 0o022 if area.kind is AreaKind.USER else 0o002
    if mode & others:
        return (
            f"Other users can write to {path} (mode {mode:04o}). It was not changed; "
            f"`chmod {ownership.mode:04o} {path}` corrects this."
        )
    return None
