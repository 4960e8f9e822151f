"""The files of a job: what the platform puts beside its script, and what the job leaves there.

They belong to the Unix account that the job runs as, so everything here happens as that account.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.states import TerminationReason


class JobPlace(Frozen):
    """Where the files of one attempt lie, and whose they are."""

    job_id: UUID
    """Of the array job for an array's task."""
    attempt: int
    folder: str
    """The job's folder, absolute; that of the attempt is below it."""
    account: str | None = None
    """The Unix account that owns them; None: the platform's own."""

    @property
    def directory(self) -> PurePath:
        """The attempt's own folder."""
        return PurePath(self.folder) / str(self.attempt)


class LogChunk(Frozen):
    """``data`` starts at byte ``offset``; the log holds ``size`` bytes at this moment."""

    data: bytes
    offset: int
    size: int


CLOSED = "platform"
"""Holds the fence of an attempt that the platform has given up: it has not begun and never will."""


class Fence(Frozen):
    """Who runs (or ran) this attempt: the scheduler's id and its restart count."""

    owner: str
    restart_count: int


class Outcome(Frozen):
    """How the program ended, as the agent wrote it down before it left."""

    owner: str
    restart_count: int
    exit_code: int
    interrupted: bool = False
    """Whether it had been asked to end: by a cancellation, a preemption, a requeue, its time limit."""
    reason: TerminationReason | None = None
    """Why the agent itself ended it, or did not start it."""
    message: str | None = Field(None, max_length=2_000)
    """The agent's sentence on that, without its full stop."""
    ended_at: UtcTime


class JobFiles(Protocol):
    """Reads and writes as the job's account, wherever the folders lie.

    Every method may raise ``Unavailable`` (the file system or the broker does not answer, or the
    file is there and cannot be read) and ``NotAllowed`` (the account may not be acted for).
    """

    async def create(self, place: JobPlace, files: Mapping[str, bytes]) -> None:
        """Make the attempt's folder (0700) and write ``files`` (0600) into it, durably.

        Idempotent: an existing folder is used, its files are replaced; the fence is left alone.
        """
        ...

    async def read_log(
        self, place: JobPlace, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Up to ``limit`` bytes from ``offset``; a negative offset counts from the end.

        A log that does not exist yet is empty.
        """
        ...

    async def fence(self, place: JobPlace, task: int | None) -> Fence | None:
        """Who took the fence; None: nobody did, so the program of this attempt has never begun.

        Raises:
            Unavailable: also when the folder itself cannot be seen, which proves nothing.
        """
        ...

    async def close_fence(self, place: JobPlace, task: int | None) -> Fence:
        """Take the fence for ``CLOSED`` unless somebody has it; who has it now.

        Raises:
            Unavailable: also when the folder that jobs lie in cannot be seen, which proves nothing.
        """
        ...

    async def outcome(self, place: JobPlace, task: int | None) -> Outcome | None:
        """How it ended; None: it has not, or not by itself."""
        ...
