"""The files of a job: what the platform puts beside its script, and what the job leaves there.

They belong to the Unix account that the job runs as, so everything here happens as that account.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import TerminationReason
from aitne.core.models.base import Frozen, UtcTime


class JobLocation(Frozen):
    """Location and account of the files of one attempt."""

    job_id: UUID
    """Id of the job; of the array job for an array's task."""
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
"""Owner in the fence of an attempt that the platform has given up: it has not started and never
will."""


class Fence(Frozen):
    """Run that executes (or executed) this attempt: the scheduler's id and its restart count."""

    owner: str
    restart_count: int


class ProgramOutcome(Frozen):
    """Result of the program, as the agent recorded it before it exited."""

    owner: str
    restart_count: int
    exit_code: int
    interrupted: bool = False
    """Whether it had been asked to end: by a cancellation, a preemption, a requeue, its time
    limit."""
    reason: TerminationReason | None = None
    """Reason why the agent itself ended it, or did not start it."""
    message: str | None = Field(None, max_length=2_000)
    """The agent's sentence on that, without its full stop."""
    ended_at: UtcTime


class JobFiles(Protocol):
    """Reads and writes as the job's account, wherever the folders lie.

    Every method may raise ``Unavailable`` (the file system or the broker does not answer, or the
    file is there and cannot be read) and ``NotAllowed`` (the account may not be acted for).
    """

    async def create(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        """Make the attempt's folder (0700) and write ``files`` (0600) into it, durably.

        Idempotent: an existing folder is used, its files are replaced; the fence is left alone.
        """
        ...

    async def read_log(
        self, place: JobLocation, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Return up to ``limit`` bytes from ``offset``; a negative offset counts from the end.

        A log that does not exist yet is empty.
        """
        ...

    async def fence(self, place: JobLocation, task: int | None) -> Fence | None:
        """Return the fence, or None if no run has taken it, so that the program of this attempt has
        never started.

        Raises:
            Unavailable: also when the folder itself cannot be seen, which proves nothing.
        """
        ...

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        """Take the fence for ``CLOSED`` unless a run has it; return the fence as it is then.

        Raises:
            Unavailable: also when the folder that jobs lie in cannot be seen, which proves nothing.
        """
        ...

    async def outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        """Return how the program ended, or None if it has not ended or did not end by itself."""
        ...
