"""Files of a job: those that the platform writes next to the batch script, and those that the job
writes in its folder.

They belong to the Unix account of the job, so all methods access them under that account.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.placement import NodeName

MAX_LOST_NODES = 64
"""Maximum number of nodes that an outcome names as lost."""


class JobLocation(Frozen):
    """Job folder of one attempt, with the account under which it is accessed."""

    job_id: UUID
    """ID of the job; for an array task, the ID of its array job."""
    attempt: int
    folder: str
    """Absolute path of the job folder, which contains a folder for each attempt."""
    account: str | None = None
    """Name of the Unix account that owns the folder; None: the platform's own."""

    @property
    def directory(self) -> PurePath:
        """Return the path of the folder of this attempt."""
        return PurePath(self.folder) / str(self.attempt)


class LogChunk(Frozen):
    """Part of a job's log, or of another file in its folder."""

    data: bytes
    """Content of the part."""
    offset: int
    """Offset of the first byte of ``data`` in the file."""
    size: int
    """Size of the whole file in bytes when it was read."""


CLOSED = "platform"
"""Owner in the fence of an attempt that the platform has closed: the program of the attempt has not
started and never will.
"""


class Fence(Frozen):
    """Content of the fence file of an attempt, which names the run that executes the attempt."""

    owner: str
    """Scheduler ID of the run; ``CLOSED`` if the platform has closed the fence."""
    restart_count: int
    """Number of times that the scheduler had requeued the run."""


class ProgramOutcome(Frozen):
    """Outcome of a run's program, as the agent recorded it in the job folder before it exited."""

    owner: str
    """Scheduler ID of the run."""
    restart_count: int
    """Number of times that the scheduler had requeued the run."""
    exit_code: int
    interrupted: bool = False
    """Whether the program was asked to end: by a cancellation, a preemption, a requeue or its time
    limit.
    """
    reason: TerminationReason | None = None
    """Reason why the agent itself ended the program or did not start it; None if it did neither."""
    message: str | None = Field(None, max_length=2_000)
    """Sentence of the agent about ``reason``, without its full stop; None if there is none."""
    lost_nodes: tuple[NodeName, ...] = Field((), max_length=MAX_LOST_NODES)
    """Nodes whose agents ended without an outcome, so that their ranks were lost."""
    ended_at: UtcTime


class FolderSize(Frozen):
    """Disk space and number of files of a job folder."""

    size_bytes: int
    """Disk space in bytes."""
    files: int
    """Number of files and folders, including the job folder; 0 if the folder does not exist."""


class FolderRemoval(Frozen):
    """State of the removal of a job folder, which may take several calls."""

    done: bool
    """Whether nothing of the folder is left, as far as this machine can see."""
    root_visible: bool = True
    """Whether the parent folder of all job folders of the account exists; if not, the job folder
    may only be unreachable.
    """


class JobFiles(Protocol):
    """Port that reads and writes the job folder of an attempt, under the Unix account of the job.
    ``task`` is the index of a task of an array job, or None.

    Every method may raise ``Unavailable`` (the file system or the broker does not answer, or a file
    exists and cannot be read) and ``NotAllowed`` (the platform may not act as the account).
    """

    async def create_attempt_folder(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
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

        A log that does not exist yet counts as empty.
        """
        ...

    async def read_file(
        self, place: JobLocation, name: str, *, offset: int, limit: int
    ) -> LogChunk | None:
        """Return up to ``limit`` bytes, from byte ``offset`` on, of the file ``name`` that the job
        has written in the attempt's folder; None if there is no such file.
        """
        ...

    async def read_fence(self, place: JobLocation, task: int | None) -> Fence | None:
        """Return the fence of the attempt; None if no run has created it, which proves that the
        program of this attempt has never started.

        Raises:
            Unavailable: also when the folder itself is not visible, which proves nothing.
        """
        ...

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        """Create the fence with the owner ``CLOSED``, so that no run can start the program of this
        attempt any more.

        Returns the fence; its owner is a run if that run has created it before.

        Raises:
            Unavailable: also if the folder of all jobs is not visible, which proves nothing.
        """
        ...

    async def read_outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        """Return how the program ended, according to the agent; None if the agent has recorded no
        end, because the program is still running or was killed together with the agent.
        """
        ...

    async def remove_unneeded_files(self, place: JobLocation) -> FolderSize | None:
        """Remove files that an ended job no longer needs from the folders of its attempts, up to
        this one: the script, the agent's specification, the outcome.

        Logs, ``Fence`` files and files that the job wrote are kept. Returns the size of the job
        folder; None if it has too many files to be measured. If the scheduler starts the agent of
        the job again, the agent cannot run the program, because the specification is missing.
        """
        ...

    async def remove_job_folder(self, place: JobLocation) -> FolderRemoval:
        """Remove the job folder with all attempts and all files that the job wrote there.

        A large folder needs several calls, each of a few seconds; the result says whether the
        removal is complete.
        """
        ...
