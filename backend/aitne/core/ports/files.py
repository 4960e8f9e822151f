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
    """Job folder of one attempt, and the Unix account that owns it."""

    job_id: UUID
    """Id of the job; of the array job for an array's task."""
    attempt: int
    folder: str
    """The job's folder, absolute; that of the attempt is below it."""
    account: str | None = None
    """The Unix account that owns them; None: the platform's own."""

    @property
    def directory(self) -> PurePath:
        """Return the path of the folder that belongs to this attempt alone."""
        return PurePath(self.folder) / str(self.attempt)


class LogChunk(Frozen):
    """A piece of a job's log: ``data`` begins at byte ``offset`` of the log, which now has ``size``
    bytes.
    """

    data: bytes
    offset: int
    size: int


CLOSED = "platform"
"""Owner in the fence of an attempt that the platform has given up: it has not started and never
will."""


class Fence(Frozen):
    """Content of an attempt's fence: which run executes or has executed the attempt. ``owner`` is
    the run's scheduler id (or ``CLOSED``), ``restart_count`` how often the scheduler had requeued
    it.
    """

    owner: str
    restart_count: int


class ProgramOutcome(Frozen):
    """Outcome of a run's program, as the agent recorded it in the job folder before it exited."""

    owner: str
    restart_count: int
    exit_code: int
    interrupted: bool = False
    """Whether the program was asked to end: by a cancellation, a preemption, a requeue or its time
    limit.
    """
    reason: TerminationReason | None = None
    """Reason why the agent itself ended it, or did not start it."""
    message: str | None = Field(None, max_length=2_000)
    """The agent's sentence about ``reason``, without its full stop."""
    ended_at: UtcTime


class FolderSize(Frozen):
    """Space that a job folder takes."""

    size_bytes: int
    files: int
    """Number of files and folders, the job folder included; 0: there is no folder."""


class FolderRemoval(Frozen):
    """State of a job folder while it is removed in steps."""

    done: bool
    """Nothing of it is left, as far as can be seen."""
    root_visible: bool = True
    """Whether the folder of all jobs of the account was there: if not, it may be out of reach."""


class JobFiles(Protocol):
    """Port that reads and writes the job folder of an attempt, under the Unix account of the job.
    ``task`` is the index of a task of an array job, or None.

    Every method may raise ``Unavailable`` (the file system or the broker does not answer, or a file
    exists and cannot be read) and ``NotAllowed`` (the platform may not act as the account).
    """

    async def create(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        """Create the attempt's folder (mode 0700) and write ``files`` (0600) into it, synchronized
        to disk.

        If the folder exists, the files in it are replaced and its fence stays unchanged.
        """
        ...

    async def read_log(
        self, place: JobLocation, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Return up to ``limit`` bytes of the log, from byte ``offset`` on; a negative ``offset``
        counts from the end of the log.

        A log that does not exist yet is empty.
        """
        ...

    async def fence(self, place: JobLocation, task: int | None) -> Fence | None:
        """Return the fence of the attempt; None if no run has created it, which proves that the
        program of this attempt has never started.

        Raises:
            Unavailable: also when the folder itself is not visible, which proves nothing.
        """
        ...

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        """Create the fence with the owner ``CLOSED``, so that no run can start the program of this
        attempt any more. Return the fence, which is that of a run if one was faster.

        Raises:
            Unavailable: also when the folder of all jobs is not visible, which proves nothing.
        """
        ...

    async def outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        """Return how the program ended; None if the agent has recorded no end, because the program
        still runs or was killed together with the agent.
        """
        ...

    async def tidy(self, place: JobLocation) -> FolderSize | None:
        """Remove what a job that has ended needs no more from the folders of its attempts, up to
        this one: its script, the agent's specification, the outcome. Logs, fences and what the job
        wrote itself stay. Return the size of the job folder; None if it has too many files to be
        measured.

        Without the specification no agent starts a program, whatever the scheduler does.
        """
        ...

    async def remove(self, place: JobLocation) -> FolderRemoval:
        """Remove the job folder with all attempts and all that the job wrote there.

        A large folder takes several calls, each of a few seconds.
        """
        ...
