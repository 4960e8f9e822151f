"""The files of a job, read and written with the rights of this process.

``OwnFiles`` implements the port for a platform whose jobs run as its own account. The functions
below it are for a process that already runs as the job's account, such as the broker's per-user
helper. A job can change the contents of its folder, so no symbolic link below the jobs directory is
followed, and only regular files are read.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from aitne.adapters.ended_job_folders import remove_job_folder, remove_unneeded_files
from aitne.adapters.trusted_job_folder import (
    FOLDER,
    convert_to_unavailable,
    make_job_folder_name,
    open_descriptor,
    open_jobs_folder,
    root_path,
)
from aitne.core.errors import InvalidInput, NotAllowed, Unavailable
from aitne.core.jobs.job_folder_layout import FENCE, OUTCOME, get_file_mode, log_file_name
from aitne.core.ports.job_files import (
    CLOSED,
    Fence,
    FolderRemoval,
    FolderSize,
    JobLocation,
    LogChunk,
    ProgramOutcome,
)
from aitne.local_system.state_file_reader import DamagedState, parse_state

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MAX_RECORD_BYTES = 64 << 10
# A link that the job put in a file's place is not followed, and a pipe not waited for.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

R = TypeVar("R", Fence, ProgramOutcome)


class OwnFiles:
    """Implementation of ``core.ports.job_files.JobFiles`` that reads and writes under the Unix account
    of the calling process.
    """

    async def create_attempt_folder(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        """Create the attempt's folder and write ``files`` into it, synchronized to disk."""
        _check_own_account(place)
        await asyncio.to_thread(create_attempt_folder, place, files)

    async def read_log(
        self, place: JobLocation, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on; a negative ``offset``
        counts from the end of the log.
        """
        _check_own_account(place)
        return await asyncio.to_thread(read_log, place, task, offset=offset, limit=limit)

    async def read_file(
        self, place: JobLocation, name: str, *, offset: int, limit: int
    ) -> LogChunk | None:
        """Return up to ``limit`` bytes, from byte ``offset`` on, of the file ``name`` in the
        attempt's folder; None if there is no such file.
        """
        _check_own_account(place)
        return await asyncio.to_thread(read_file, place, name, offset=offset, limit=limit)

    async def read_fence(self, place: JobLocation, task: int | None) -> Fence | None:
        """Return the attempt's fence, the file that names the scheduler's run that executes the
        attempt; None if no run has created it.
        """
        _check_own_account(place)
        return await asyncio.to_thread(read_fence, place, task)

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        """Create the fence file of a job's attempt with the owner ``CLOSED``, so that no run of the
        scheduler can start the program any more. Return the existing fence if a run has created it
        already. ``task`` is the index of an array's task; None: the job is not an array.
        """
        _check_own_account(place)
        return await asyncio.to_thread(close_fence, place, task)

    async def read_outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        """Return how the program ended; None if the agent has recorded no end."""
        _check_own_account(place)
        return await asyncio.to_thread(read_outcome, place, task)

    async def remove_unneeded_files(self, place: JobLocation) -> FolderSize | None:
        """Remove the files that only a running job needs (script, specification, outcome); return
        the size of the job folder, or None if it has too many files to be measured.
        """
        _check_own_account(place)
        return await asyncio.to_thread(remove_unneeded_files, place)

    async def remove_job_folder(self, place: JobLocation) -> FolderRemoval:
        """Remove the job folder. Each call takes a few seconds at most; it must be repeated until
        the result is ``done``.
        """
        _check_own_account(place)
        return await asyncio.to_thread(remove_job_folder, place)


def create_attempt_folder(place: JobLocation, files: Mapping[str, bytes]) -> None:
    """Create the attempt's folder (mode 0700) and write ``files`` into it, synchronized to disk:
    commands of the job with mode 0700 and others with 0600.

    Raises:
        InvalidInput: a name is not a plain file name, or is one that the job itself writes.
        Unavailable: the folder cannot be created or written.
    """
    for name in files:
        _check_name(name)
    with convert_to_unavailable(place, "cannot be written"):
        os.makedirs(root_path(place), mode=0o700, exist_ok=True)
        with (
            open_jobs_folder(place) as root,
            _open_or_create_folder(root, make_job_folder_name(place)) as job,
            _open_or_create_folder(job, str(place.attempt)) as attempt,
        ):
            for name, data in files.items():
                _write_atomically(attempt, name, data, mode=get_file_mode(name))
            os.fsync(attempt)


def read_log(place: JobLocation, task: int | None, *, offset: int, limit: int) -> LogChunk:
    """Return up to ``limit`` bytes of the log from byte ``offset`` on; a negative ``offset`` counts
    from the end. A log that is missing or not a regular file is empty.

    Raises:
        Unavailable: the log exists but cannot be read.
    """
    with convert_to_unavailable(place, "cannot be read"):
        try:
            with (
                _open_attempt_folder(place) as folder,
                open_descriptor(log_file_name(task), _READ, folder) as file,
            ):
                return _read_chunk(file, offset, limit)
        except FileNotFoundError:
            return LogChunk(data=b"", offset=0, size=0)


def read_file(place: JobLocation, name: str, *, offset: int, limit: int) -> LogChunk | None:
    """Return up to ``limit`` bytes, from byte ``offset`` on, of the file ``name`` in the attempt's
    folder; None if it is missing or not a regular file.

    Raises:
        InvalidInput: the name is not a plain file name.
        Unavailable: the file exists but cannot be read.
    """
    if _FILE_NAME.fullmatch(name) is None:
        raise InvalidInput.field("name", "must be a plain file name", value=name)
    with convert_to_unavailable(place, "cannot be read"):
        try:
            with (
                _open_attempt_folder(place) as folder,
                open_descriptor(name, _READ, folder) as file,
            ):
                regular = stat.S_ISREG(os.fstat(file).st_mode)
                return _read_chunk(file, offset, limit) if regular else None
        except FileNotFoundError:
            return None


def read_outside_log(path: str, *, offset: int, limit: int) -> LogChunk:
    """Return up to ``limit`` bytes, from byte ``offset`` on, of a log outside of the jobs
    directory; a log that is missing or not a regular file is empty.

    Raises:
        Unavailable: the log exists but cannot be read.
    """
    try:
        # Links are followed: the process has no more rights than the account that placed them.
        with open_descriptor(path, _READ & ~os.O_NOFOLLOW) as file:
            return _read_chunk(file, offset, limit)
    except FileNotFoundError:
        return LogChunk(data=b"", offset=0, size=0)
    except OSError as error:
        raise Unavailable(f"The log {path} cannot be read: {error.strerror or error}.") from error


def _read_chunk(file: int, offset: int, limit: int) -> LogChunk:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        return LogChunk(data=b"", offset=0, size=0)
    size = facts.st_size
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    data = os.pread(file, max(0, limit), start)
    return LogChunk(data=data, offset=start, size=max(size, start + len(data)))


def read_fence(place: JobLocation, task: int | None) -> Fence | None:
    """Return the attempt's fence, the file that names the scheduler's run that executes the
    attempt; None if no run has created it.

    Raises:
        Unavailable: the folder is inaccessible, or the fence exists but cannot be read.
    """
    return _read_record(place, FENCE, task, Fence)


def close_fence(place: JobLocation, task: int | None) -> Fence:
    """Create the fence file of a job's attempt with the owner ``CLOSED``, so that no run of the
    scheduler can start the program any more. Return the existing fence if a run has created it
    already. ``task`` is the index of an array's task; None: the job is not an array.

    Raises:
        Unavailable: the folder is inaccessible, or the fence exists but cannot be read.
    """
    name = FENCE if task is None else f"{FENCE}-{task}"
    fence = Fence(owner=CLOSED, restart_count=0)
    with (
        convert_to_unavailable(place, "cannot be written"),
        open_jobs_folder(place) as root,
        # A submission that did not get this far left no folder; it may still be in progress.
        _open_or_create_folder(root, make_job_folder_name(place)) as job,
        _open_or_create_folder(job, str(place.attempt)) as attempt,
    ):
        try:
            _write_atomically(attempt, name, fence.model_dump_json().encode(), replace=False)
        except FileExistsError:
            existing = read_fence(place, task)
            if existing is None:
                raise Unavailable(
                    f"{place.directory / name} was removed by another process."
                ) from None
            return existing
        os.fsync(attempt)
    return fence


def read_outcome(place: JobLocation, task: int | None) -> ProgramOutcome | None:
    """Return how the program ended; None if the agent has recorded no end.

    Raises:
        Unavailable: the folder is inaccessible, or the outcome exists but cannot be read.
    """
    return _read_record(place, OUTCOME, task, ProgramOutcome)


def _read_record(place: JobLocation, kind: str, task: int | None, model: type[R]) -> R | None:
    name = kind if task is None else f"{kind}-{task}"
    with convert_to_unavailable(place, "cannot be read"), _open_attempt_folder(place) as folder:
        try:
            with open_descriptor(name, _READ, folder) as file:
                regular = stat.S_ISREG(os.fstat(file).st_mode)
                text = os.read(file, _MAX_RECORD_BYTES) if regular else b""
        except FileNotFoundError:
            return None
    try:
        return parse_state(model, text)
    except DamagedState as error:
        raise Unavailable(
            f"{place.directory / name} exists but does not hold what the agent writes; another "
            "process changed it. Check the job's log, and cancel the job if nothing runs."
        ) from error


def _check_own_account(place: JobLocation) -> None:
    if place.account is not None:
        raise NotAllowed(
            f"This platform cannot act as {place.account}: it has no broker. Set broker.socket, or "
            "use the platform that submitted the job."
        )


def _check_name(name: str) -> None:
    taken = name.split("-")[0].split(".")[0] in (FENCE, OUTCOME, "output")
    if taken or _FILE_NAME.fullmatch(name) is None:
        raise InvalidInput.field(
            "files", "must be a plain file name that the job does not write itself", value=name
        )


@contextmanager
def _open_attempt_folder(place: JobLocation) -> Iterator[int]:
    """Open the attempt's folder for the ``with`` block. It is opened anew each time, so that a
    network file system queries its server instead of its cache.
    """
    below = FOLDER | os.O_NOFOLLOW
    with (
        open_jobs_folder(place) as root,
        open_descriptor(make_job_folder_name(place), below, root) as job,
        open_descriptor(str(place.attempt), below, job) as attempt,
    ):
        yield attempt


@contextmanager
def _open_or_create_folder(folder: int, name: str) -> Iterator[int]:
    """Open the folder ``name`` in ``folder`` for the ``with`` block; create it if it is missing."""
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
        os.fsync(folder)
    except FileExistsError:
        pass
    with open_descriptor(name, FOLDER | os.O_NOFOLLOW, folder) as made:
        if stat.S_IMODE(os.fstat(made).st_mode) != 0o700:
            os.fchmod(made, 0o700)  # an earlier umask or a user changed it
        yield made


def _write_atomically(
    folder: int, name: str, data: bytes, *, replace: bool = True, mode: int = 0o600
) -> None:
    """Write the file atomically: readers see the previous file or the complete new one.

    Raises:
        FileExistsError: the file exists, and ``replace`` is False.
    """
    temporary = f".{name}.{os.urandom(8).hex()}"
    try:
        _create_file(folder, temporary, data, mode)
        if replace:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _create_file(folder, name, data, mode)  # as the agent does there
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.unlink(temporary, dir_fd=folder)


def _create_file(folder: int, name: str, data: bytes, mode: int) -> None:
    """Create a new file and synchronize it to disk. Raises ``FileExistsError``."""
    file = os.open(name, _WRITE, mode, dir_fd=folder)
    try:
        os.fchmod(file, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)
