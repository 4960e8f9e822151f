"""Logs as files below the jobs directory."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from uuid import UUID

from aitne.core.errors import Unavailable
from aitne.core.layout import job_dir, log_name
from aitne.core.ports.logs import LogChunk

_EMPTY = LogChunk(data=b"", offset=0, size=0)


class FileLogs:
    """Fulfils ``core.ports.logs.Logs`` where the platform can read the jobs' folders itself."""

    def __init__(self, jobs_dir: Path) -> None:
        self._jobs_dir = jobs_dir

    async def read(
        self, job_id: UUID, attempt: int, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Up to ``limit`` bytes from ``offset``; a negative offset counts from the end.

        Raises:
            Unavailable: the file is there and cannot be read.
        """
        path = Path(job_dir(self._jobs_dir, job_id, attempt)) / log_name(task)
        try:
            return await asyncio.to_thread(_read, path, offset, limit)
        except OSError as error:
            raise Unavailable(
                f"The log {path} cannot be read: {error.strerror or error}. Ask an administrator "
                "to look at the data directory."
            ) from error


def _read(path: Path, offset: int, limit: int) -> LogChunk:
    try:
        # Neither a link nor a pipe that the job put in its log's place leads anywhere.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _EMPTY
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return _EMPTY
        size = facts.st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        return LogChunk(data=os.pread(file, max(0, limit), start), offset=start, size=size)
    finally:
        os.close(file)
