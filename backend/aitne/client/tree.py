"""Contents of a folder: files, links, and entries that a dataset cannot have."""

from __future__ import annotations

import errno
import os
import stat

from aitne.core.datasets import check_path, check_target

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
"""Number of entries between two calls of a scan's listener."""


class TreeProblem:
    """An entry that keeps a folder from being a dataset, or from being compared with one."""

    __slots__ = ("kind", "path", "reason")

    def __init__(self, path: bytes, kind: str, reason: str) -> None:
        self.path = path
        self.kind = kind
        """``changed`` meanwhile, ``unreadable`` for this user, ``broken`` for all users, or
        ``refused`` because a dataset cannot have it."""
        self.reason = reason


class Tree:
    """Result of a scan, by path relative to the folder."""

    def __init__(self) -> None:
        self.files: dict[bytes, Stamp | None] = {}
        """Stamps of the files; None if the scan did not read them."""
        self.links: dict[bytes, bytes] = {}
        self.problems: list[TreeProblem] = []

    def __len__(self) -> int:
        return len(self.files) + len(self.links)

    def problem(self, path: bytes, kind: str, reason: str) -> None:
        """Record a problem of the scan."""
        self.problems.append(TreeProblem(path, kind, reason))


def stamp(status: os.stat_result) -> Stamp:
    """Return the values that identify one state of a file: size, times and inode."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def unreadable(path: bytes, error: OSError) -> TreeProblem:
    """Return the problem for a system call that failed at ``path``."""
    kind = UNREADABLE if error.errno in (errno.EACCES, errno.EPERM) else BROKEN
    return TreeProblem(path, kind, f"cannot be read: {error.strerror or error}")


def scan(root: bytes, *, stamps: bool, heard: Callable[[int], None] | None = None) -> Tree:
    """Walk below ``root`` without following links. ``stamps``: read the stamp of each file, which
    takes longer.

    ``heard`` is called from time to time with the number of entries so far.
    """
    tree = Tree()
    folders = [b""]
    reported = 0
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
        if heard is not None and len(tree) - reported >= OFTEN:
            reported = len(tree)
            heard(reported)
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
            # Reported now instead of after all other files were read.
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
