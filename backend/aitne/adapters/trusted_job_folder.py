"""Access to the folder of a job such that no other account can have placed the files that are found
there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from aitne.adapters.storage.posix import PosixStorage
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import StorageFull, Unavailable
from aitne.core.models.storage_area import Area, AreaKind
from aitne.core.ports.job_files import JobLocation
from aitne.local_system.own_account import own_account_name

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def root_path(place: JobLocation) -> PurePath:
    """Return the path of the folder that contains all job folders of the account."""
    return PurePath(place.folder).parent


def make_job_folder_name(place: JobLocation) -> str:
    """Return the name of the job folder below ``root_path``."""
    return PurePath(place.folder).name


@contextmanager
def convert_to_unavailable(place: JobLocation, what: str) -> Iterator[None]:
    """Convert an ``OSError`` in the ``with`` block to ``Unavailable``, or to ``StorageFull`` if the
    user can make room; ``what`` says what failed, such as ``cannot be removed``.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"The job's folder {place.directory} {what}: {_describe_usage(place, error)}. Delete files there "
                "that you no longer need, such as ended jobs (`aitne rm`); `aitne storage` shows your "
                "folders, and the job starts when there is space."
            ) from error
        raise Unavailable(
            f"The job's folder {place.directory} {what}: {error.strerror or error}"
            f"{'' if error.filename is None else f' ({error.filename})'}. Ask an administrator to "
            "check its file system."
        ) from error


def _describe_usage(place: JobLocation, error: OSError) -> str:
    """Return a clause that says how much is used where the job's folder is: of the user's quota if
    that is known, otherwise of the file system.
    """
    folder = root_path(place)
    while not os.path.isdir(folder) and folder != folder.parent:
        folder = folder.parent
    area = Area(name="home", kind=AreaKind.USER, path=str(folder))
    facts = PosixStorage().read_area(area, user=place.account or own_account_name())
    quota = facts.user_quota
    if quota is not None and quota.limit_bytes and quota.used_bytes is not None:
        used, limit = describe_bytes(quota.used_bytes), describe_bytes(quota.limit_bytes)
        return f"your quota is used up ({used} of {limit} on the file system of {folder})"
    if error.errno == errno.EDQUOT:
        return f"your quota on the file system of {folder} is used up"
    if facts.total_bytes is None or facts.free_bytes is None:
        return f"too little space is left on the file system of {folder}"
    used, total = (
        describe_bytes(facts.total_bytes - facts.free_bytes),
        describe_bytes(facts.total_bytes),
    )
    return f"too little space is left ({used} of {total} on the file system of {folder} are used)"


@contextmanager
def open_descriptor(name: str | bytes, flags: int, folder: int | None = None) -> Iterator[int]:
    """Open a file or folder for the ``with`` block and yield its descriptor.

    Args:
        name: path of the file or folder.
        flags: flags of open(2).
        folder: descriptor of the folder to which ``name`` is relative; None: the current folder.
    """
    file = os.open(name, flags, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def open_jobs_folder(place: JobLocation) -> Iterator[int]:
    """Open the folder that contains all job folders of the account, after checking its owner and
    mode.

    Any other account that can write to it could replace a job's script, which runs as this account;
    so could the owner of a link to it.

    Raises:
        Unavailable: another account owns the folder or a link in its place, or can write to it.
    """
    link = os.lstat(root_path(place))
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid()):
        raise Unavailable(
            f"{root_path(place)} is a link of uid {link.st_uid}, which could lead to another folder at "
            "any time. Nothing is written or read there: ask an administrator to remove it."
        )
    with open_descriptor(str(root_path(place)), FOLDER) as root:
        facts = os.fstat(root)
        others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
        # A platform that runs as root without a broker creates its folders itself.
        is_own = os.geteuid() in (0, facts.st_uid)
        if not is_own and (facts.st_uid != 0 or others):
            raise Unavailable(
                f"{root_path(place)} belongs to uid {facts.st_uid} (mode "
                f"{stat.S_IMODE(facts.st_mode):04o}), which could change what the job runs. "
                "Nothing is written or read there: ask an administrator to make uid "
                f"{os.geteuid()} its owner."
            )
        yield root
