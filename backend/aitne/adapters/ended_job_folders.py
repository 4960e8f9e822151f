"""Cleaning, measurement and removal of the folders of ended jobs.

As in ``files``, this process runs as the job's account, and no symbolic link below the jobs
directory is followed. Each call takes a few seconds at most, so that requests for the account's
other jobs need not wait.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from aitne.adapters.trusted_job_folder import (
    FOLDER,
    convert_to_unavailable,
    make_job_folder_name,
    open_descriptor,
    open_jobs_folder,
)
from aitne.core.jobs.job_folder_layout import UNNEEDED
from aitne.core.ports.job_files import FolderRemoval, FolderSize, JobLocation

MOST_ENTRIES = 100_000
"""Maximum number of files and folders in a job folder that is measured."""
STEP_S = 4.0
"""Seconds after which a call stops; the caller repeats it."""
DEEPEST = 50
"""Maximum depth of nested folders that are visited."""
_BLOCK_BYTES = 512
_BELOW = FOLDER | os.O_NOFOLLOW


class _OutOfTimeError(Exception):
    """Error: the call has reached its limit of time, entries or depth."""


class _Limits:
    """Limits of one call: its end time, and the maximum number of visited files and folders."""

    def __init__(self, most_entries: int | None = None) -> None:
        self._until = time.monotonic() + STEP_S
        self._most = most_entries
        self.entries = 0

    def count_entry(self) -> None:
        """Count one file or folder. Raises ``_OutOfTimeError`` if a limit is exceeded."""
        self.entries += 1
        if time.monotonic() > self._until or (self._most and self.entries > self._most):
            raise _OutOfTimeError


def remove_unneeded_files(place: JobLocation) -> FolderSize | None:
    """Remove the files that an ended job no longer needs (script, specification, outcome) from the
    folders of its attempts up to ``place.attempt``. Return the size of the job folder, or None if
    it has too many files to be measured.

    Raises:
        Unavailable: the folder cannot be read or changed.
    """
    limits = _Limits(MOST_ENTRIES)
    with convert_to_unavailable(place, "cannot be tidied"), open_jobs_folder(place) as root:
        try:
            with open_descriptor(make_job_folder_name(place), _BELOW, root) as job:
                for name in os.listdir(job):
                    if name.isascii() and name.isdecimal() and int(name) <= place.attempt:
                        with open_descriptor(name, _BELOW, job) as attempt:
                            _remove_unneeded_of_attempt(attempt, _Limits())
                return FolderSize(
                    size_bytes=_measure_used_bytes(job, limits), files=limits.entries + 1
                )
        except FileNotFoundError:
            return FolderSize(size_bytes=0, files=0)
        except _OutOfTimeError:
            return None


def remove_job_folder(place: JobLocation) -> FolderRemoval:
    """Remove the job folder, or as much of it as the call's time permits; the result's ``done`` is
    False if files remain.

    Raises:
        Unavailable: the folder cannot be removed.
    """
    with convert_to_unavailable(place, "cannot be removed"):
        try:
            with open_jobs_folder(place) as root:
                try:
                    _remove_tree(root, make_job_folder_name(place), _Limits())
                except _OutOfTimeError:
                    return FolderRemoval(done=False)
                os.fsync(root)
        except FileNotFoundError:
            return FolderRemoval(done=True, root_visible=False)
    return FolderRemoval(done=True)


def _remove_unneeded_of_attempt(attempt: int, limits: _Limits) -> None:
    # First the specification: without it nothing starts the program, whatever is left.
    for name in sorted(os.listdir(attempt)):
        if UNNEEDED.fullmatch(name):
            _remove_tree(attempt, name, limits)


def _measure_used_bytes(folder: int, limits: _Limits, depth: int = 0) -> int:
    """Return the disk space in bytes of a folder and everything in it."""
    if depth > DEEPEST:
        raise _OutOfTimeError
    total = os.fstat(folder).st_blocks * _BLOCK_BYTES
    with os.scandir(folder) as entries:
        for entry in entries:
            limits.count_entry()
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    with open_descriptor(entry.name, _BELOW, folder) as below:
                        total += _measure_used_bytes(below, limits, depth + 1)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return total


def _remove_tree(
    folder: int, name: str, limits: _Limits, top: int | None = None, depth: int = 0
) -> None:
    """Remove a file, or a folder with everything in it; do nothing if it is missing."""
    limits.count_entry()
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            return
        if top is not None and depth > DEEPEST:
            # Each level needs a descriptor: what is deeper is removed from the top.
            os.rename(name, f".{os.urandom(8).hex()}", src_dir_fd=folder, dst_dir_fd=top)
            return
        try:
            below = os.open(name, _BELOW, dir_fd=folder)
        except PermissionError:
            # The job took the rights to its own folder away.
            os.chmod(name, 0o700, dir_fd=folder)
            below = os.open(name, _BELOW, dir_fd=folder)
        try:
            while names := os.listdir(below):
                for entry in names:
                    _remove_tree(below, entry, limits, below if top is None else top, depth + 1)
        except PermissionError:
            if os.fstat(below).st_mode & stat.S_IRWXU == stat.S_IRWXU:
                raise
            os.fchmod(below, 0o700)
            raise _OutOfTimeError from None  # the next call continues
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=folder)
