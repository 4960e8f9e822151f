"""Scan of a folder: its files, links, and entries that a dataset cannot contain."""

from __future__ import annotations

import errno
import os
import stat

from aitne.core.dataset_manifest import check_path, check_target

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
"""Number of entries between two calls of a scan's progress callback."""


class TreeProblem:
    """Entry of a folder that cannot be part of a dataset, or that could not be compared with a
    manifest.
    """

    __slots__ = ("kind", "path", "reason")

    def __init__(self, path: bytes, kind: str, reason: str) -> None:
        self.path = path
        self.kind = kind
        """Kind of the problem: ``changed`` meanwhile, ``make_unreadable_problem`` for this user, ``broken`` for
        all users, or ``refused`` because a dataset cannot contain it."""
        self.reason = reason


class Tree:
    """Result of a scan of a folder. Paths are relative to the folder."""

    def __init__(self) -> None:
        self.files: dict[bytes, Stamp | None] = {}
        """Stamp (size, times, inode) of each file; None if the scan did not determine stamps."""
        self.links: dict[bytes, bytes] = {}
        self.problems: list[TreeProblem] = []

    def __len__(self) -> int:
        return len(self.files) + len(self.links)

    def add_problem(self, path: bytes, kind: str, reason: str) -> None:
        """Record that the entry ``path`` has a problem."""
        self.problems.append(TreeProblem(path, kind, reason))


def make_stamp(status: os.stat_result) -> Stamp:
    """Return a file's stamp, by which a change of the file is detected: size, times and inode."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def make_unreadable_problem(path: bytes, error: OSError) -> TreeProblem:
    """Return the problem that describes a failed system call at ``path``."""
    kind = UNREADABLE if error.errno in (errno.EACCES, errno.EPERM) else BROKEN
    return TreeProblem(path, kind, f"cannot be read: {error.strerror or error}")


def scan_folder(root: bytes, *, stamps: bool, heard: Callable[[int], None] | None = None) -> Tree:
    """Scan the folder ``root`` without following links.

    With ``stamps``, the stamp of each file is determined, which takes longer. ``heard`` is a
    progress callback, called from time to time with the number of entries found so far.
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
                        _add_entry(tree, path, entry, stamps=stamps)
        except OSError as error:
            tree.problems.append(make_unreadable_problem(folder or b".", error))
        if heard is not None and len(tree) - reported >= OFTEN:
            reported = len(tree)
            heard(reported)
    return tree


def _add_entry(tree: Tree, path: bytes, entry: os.DirEntry[bytes], *, stamps: bool) -> None:
    try:
        check_path(path)
        if entry.is_symlink():
            target = os.readlink(entry.path)
            check_target(path, target)
            tree.links[path] = target
        elif entry.is_file(follow_symlinks=False):
            tree.files[path] = make_stamp(entry.stat(follow_symlinks=False)) if stamps else None
            # Reported now instead of after all other files were read.
            if stamps and not os.access(entry.path, os.R_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            kind = _describe_kind(entry.stat(follow_symlinks=False).st_mode)
            tree.add_problem(path, REFUSED, f"is a {kind}: a dataset has files, folders and links")
    except OSError as error:
        tree.problems.append(make_unreadable_problem(path, error))
    except ValueError as error:
        tree.add_problem(path, REFUSED, str(error))


def _describe_kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
