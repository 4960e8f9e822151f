"""Facts about any file system that the kernel can mount, with the quotas that ``quota`` (of
quota-tools) reports.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import struct
from collections.abc import Sequence

from aitne.adapters.storage._folder_facts import read_folder_facts
from aitne.adapters.storage._mounts import Mounts
from aitne.adapters.storage._tools import StorageTools, ToolFailed
from aitne.core.models.storage_area import Area, AreaFacts, AreaKind, Quota

# struct fsxattr of linux/fs.h: the project's number is its fourth 32-bit field.
_GET_FLAGS = 0x801C581F
_FLAGS = struct.Struct("=5I8x")
_NO_QUOTAS = frozenset({"tmpfs", "overlay", "squashfs", "ramfs", "iso9660", "erofs"})


class PosixStorage:
    """Implementation of ``core.ports.storage_system.Storage`` for ordinary file systems, with the program
    ``quota``.

    If there are no quotas, or this account may not query them, quotas are reported as unknown and
    not as a problem.
    """

    name = "posix"

    def __init__(self, mounts: Mounts | None = None, tools: StorageTools | None = None) -> None:
        self._mounts = mounts or Mounts()
        self._tools = tools or StorageTools()

    def read_area(self, area: Area, *, user: str) -> AreaFacts:
        """Return size, quota and other current facts of the area; errors of the file system are
        reported in ``problem``, not raised.
        """
        facts, mount = read_folder_facts(area, self._mounts)
        has_quotas = facts.available and mount is not None and mount.kind not in _NO_QUOTAS
        if not has_quotas or mount is None or not self._tools.has_program("quota"):
            return facts
        asks = [("-u", _get_uid_or_name(user))]
        if area.kind is AreaKind.PROJECT:
            if number := _project_number(area.path):
                asks.append(("-P", str(number)))
            if area.project is not None and (gid := _find_gid(area.project)) is not None:
                asks.append(("-g", gid))
        of_user, *of_project = self._query_quotas(asks, mount.point)
        project_quotas = (quota for quota in of_project if quota is not None)
        return facts.model_copy(
            update={"user_quota": of_user, "project_quota": next(project_quotas, None)}
        )

    def _query_quotas(
        self, asks: Sequence[tuple[str, str]], mount_point: str
    ) -> list[Quota | None]:
        base = ["quota", "-w", "-p", "-v", f"--filesystem={mount_point}"]
        # It exits with 1 for a user who is over the quota.
        answers = self._tools.run_all([[*base, kind, "--", who] for kind, who in asks], check=False)
        return [
            None if isinstance(answer, ToolFailed) else parse_quota(answer) for answer in answers
        ]


def parse_quota(text: str) -> Quota | None:
    """Parse the output of ``quota -w -p`` for one file system; None means that there are no quotas.

    A line contains the device; then usage, soft limit, hard limit and grace time in 1024-byte
    blocks; then the same for files. A number over its limit is followed by ``*``; a limit of 0
    means no limit.
    """
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 9:
            continue
        numbers = [field.rstrip("*") for field in fields[-8:]]
        if not all(number.isdigit() for number in numbers):
            continue
        blocks, soft, hard, _, files, files_soft, files_hard, _ = map(int, numbers)
        limit = hard or soft
        return Quota(
            used_bytes=blocks * 1024,
            limit_bytes=limit * 1024 if limit else None,
            used_files=files,
            limit_files=files_hard or files_soft or None,
        )
    return None


def _project_number(path: str) -> int:
    """Return the folder's quota project ID in its file system (ext4, XFS), or 0 if it has none."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        answer = fcntl.ioctl(folder, _GET_FLAGS, b"\0" * _FLAGS.size)
        number: int = _FLAGS.unpack(answer)[3]
        return number
    except OSError:
        return 0
    finally:
        os.close(folder)


def _get_uid_or_name(name: str) -> str:
    """Return the account's uid for ``quota``, which takes a name of digits for a uid; the name if
    there is no such account.
    """
    try:
        return str(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return name


def _find_gid(name: str) -> str | None:
    """Return the gid of a group as text; None if there is no such group."""
    try:
        return str(grp.getgrnam(name).gr_gid)
    except KeyError:
        return None
