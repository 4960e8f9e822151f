"""Job files in memory: logs, fences and outcomes that a test writes by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from aitne.core.models.job import Job
from aitne.core.ports.job_files import (
    CLOSED,
    Fence,
    FolderRemoval,
    FolderSize,
    JobLocation,
    LogChunk,
    ProgramOutcome,
)

Key = tuple[UUID, int, int | None]
"""The job (the array's for a task), the attempt, and the index of the task."""


def key_of(job: Job) -> Key:
    return (job.array_job_id or job.id, job.attempt, job.array_task_id)


@dataclass(slots=True)
class MemoryFiles:
    """``core.ports.job_files.JobFiles`` without a file system."""

    logs: dict[Key, bytes] = field(default_factory=dict)
    fences: dict[Key, Fence] = field(default_factory=dict)
    outcomes: dict[Key, ProgramOutcome] = field(default_factory=dict)
    created: dict[tuple[UUID, int], dict[str, bytes]] = field(default_factory=dict)
    written: dict[tuple[UUID, int], dict[str, bytes]] = field(default_factory=dict)
    """Files that the job itself wrote, by job and attempt."""
    reads: int = 0
    tidied: list[UUID] = field(default_factory=list)
    removed: list[UUID] = field(default_factory=list)
    removals: list[FolderRemoval] = field(default_factory=list)
    """The next answers of ``remove``; afterwards each folder is removed at once."""
    failing: Exception | None = None
    """The error that every method raises, if set."""

    def write_log(self, job: Job, text: bytes) -> None:
        """Append output of the job's program to its log."""
        self.logs[key_of(job)] = self.logs.get(key_of(job), b"") + text

    def _check(self) -> None:
        if self.failing is not None:
            raise self.failing

    async def create_attempt_folder(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        self._check()
        self.created.setdefault((place.job_id, place.attempt), {}).update(files)

    async def read_log(
        self, place: JobLocation, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        self._check()
        self.reads += 1
        text = self.logs.get((place.job_id, place.attempt, task), b"")
        start = max(0, len(text) + offset) if offset < 0 else min(offset, len(text))
        return LogChunk(data=text[start : start + limit], offset=start, size=len(text))

    async def read_file(
        self, place: JobLocation, name: str, *, offset: int, limit: int
    ) -> LogChunk | None:
        self._check()
        self.reads += 1
        data = self.written.get((place.job_id, place.attempt), {}).get(name)
        if data is None:
            return None
        return LogChunk(data=data[offset : offset + limit], offset=offset, size=len(data))

    async def read_fence(self, place: JobLocation, task: int | None) -> Fence | None:
        self._check()
        return self.fences.get((place.job_id, place.attempt, task))

    async def close_fence(self, place: JobLocation, task: int | None) -> Fence:
        self._check()
        key = (place.job_id, place.attempt, task)
        return self.fences.setdefault(key, Fence(owner=CLOSED, restart_count=0))

    async def read_outcome(self, place: JobLocation, task: int | None) -> ProgramOutcome | None:
        self._check()
        return self.outcomes.get((place.job_id, place.attempt, task))

    async def remove_unneeded_files(self, place: JobLocation) -> FolderSize | None:
        self._check()
        self.tidied.append(place.job_id)
        return FolderSize(size_bytes=4_096, files=4)

    async def remove_job_folder(self, place: JobLocation) -> FolderRemoval:
        self._check()
        if self.removals:
            return self.removals.pop(0)
        self.removed.append(place.job_id)
        return FolderRemoval(done=True)
