"""What lies below a folder: files, links, and what cannot be in a dataset."""

from __future__ import annotations

import errno
import os
import stat

from aitne.core.manifest import check_path, check_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Stamp = tuple[int, int, int, int]
    """Size in bytes, times of the last change of content and of inode in ns, inode number: while
    these are the same, a file is taken to be the same."""

CHANGED = "changed"
UNREADABLE = "unreadable"
BROKEN = "broken"
REFUSED = "refused"
OFTEN = 1_000
"""Entries between two calls of a scan's listener."""


class Problem:
    """Something of a folder that keeps it from being a dataset, or from being compared with one."""

    __slots__ = ("kind", "path", "reason")

    def __init__(self, path: bytes, kind: str, reason: str) -> None:
        self.path = path
        self.kind = kind
        """``changed`` meanwhile, ``unreadable`` for this user, ``broken`` for everybody, or ``refused``
        because a dataset cannot have it."""
        self.reason = reason


class Tree:
    """What a scan has found, by path relative to the folder."""

    def __init__(self) -> None:
        self.files: dict[bytes, Stamp | None] = {}
        """None where the scan was not to look at each file."""
        self.links: dict[bytes, bytes] = {}
        self.problems: list[Problem] = []

    def __len__(self) -> int:
        return len(self.files) + len(self.links)

    def problem(self, path: bytes, kind: str, reason: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(path, kind, reason))


def stamp(found: os.stat_result) -> Stamp:
    """What tells two states of a file apart."""
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def unreadable(path: bytes, error: OSError) -> Problem:
    """What a system call had against ``path``."""
    kind = UNREADABLE if error.errno in (errno.EACCES, errno.EPERM) else BROKEN
    return Problem(path, kind, f"cannot be read: {error.strerror or error}")


def scan(root: bytes, *, stamps: bool, heard: Callable[[int], None] | None = None) -> Tree:
    """Walk below ``root`` and follow no link. ``stamps``: look at each file, which takes longer.

    ``heard`` is told now and then how many entries there are so far.
    """
    tree = Tree()
    folders = [b""]
    told = 0
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder) if folder else root) as entries:
                for entry in entries:
                    path = folder + b"/" + entry.name if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        _add(tree, path, entry, stamps=stamps)
        except OSError as error:
            tree.problems.append(unreadable(folder or b".", error))
        if heard is not None and len(tree) - told >= OFTEN:
            told = len(tree)
            heard(told)
    return tree


def _add(tree: Tree, path: bytes, entry: os.DirEntry[bytes], *, stamps: bool) -> None:
    try:
        check_path(path)
        if entry.is_symlink():
            target = os.readlink(entry.path)
            check_target(path, target)
            tree.links[path] = target
        elif entry.is_file(follow_symlinks=False):
            tree.files[path] = stamp(entry.stat(follow_symlinks=False)) if stamps else None
            # To be told of it now is better than when all the others were read.
            if stamps and not os.access(entry.path, os.R_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            kind = _kind(entry.stat(follow_symlinks=False).st_mode)
            tree.problem(path, REFUSED, f"is a {kind}: a dataset has files, folders and links")
    except OSError as error:
        tree.problems.append(unreadable(path, error))
    except ValueError as error:
        tree.problem(path, REFUSED, str(error))


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
