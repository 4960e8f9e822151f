"""A source of jobs from outside the platform, in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from aitne.core.errors import NotAllowed, NotSupported, SchedulerUnavailable
from aitne.core.jobs.log_path_pattern import make_log_path
from aitne.core.jobs.states import JobState
from aitne.core.ports.job_files import LogChunk
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJob, OutsideLog, OutsideRun

SUBMITTED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_record(number: int = 7, **overrides: Any) -> OutsideJob:
    """Return a waiting job of ada that was submitted outside the platform."""
    run = {"scheduler_id": str(number), "account": "ada", "submitted_at": SUBMITTED_AT}
    values = {**run, "name": "train", "state": JobState.QUEUED, "raw": {"JobID": str(number)}}
    return OutsideJob.model_validate({**values, **overrides})


class MemoryOutside:
    """Implementation of ``OutsideJobs``: what a test puts into it."""

    def __init__(self) -> None:
        self.records: list[OutsideJob] = []
        self.accounting: list[OutsideJob] | None = []
        """The ended jobs in accounting; None without accounting."""
        self.logs: dict[str, bytes] = {}
        self.actions: list[tuple[str, OutsideAction]] = []
        self.searched: list[list[str]] = []
        self.silent = False

    async def list_jobs(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        self._answer()
        return [record for record in self.records if record.account in accounts]

    async def find_ended_jobs(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        self._answer()
        if self.accounting is None:
            raise NotSupported("no accounting")
        numbers = [run.scheduler_id for run in runs]
        self.searched.append(numbers)
        return [record for record in self.accounting if record.scheduler_id in numbers]

    async def perform_action(self, run: OutsideRun, action: OutsideAction) -> None:
        self._answer()
        self.actions.append((f"{run.account}:{run.scheduler_id}", action))

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        if log.seal != f"seal of {log.path}":
            raise NotAllowed("not sealed")
        path = log.path if log.task is None else make_log_path(log.path, {"a": log.task})
        data = self.logs.get(f"{log.account}:{path}", b"")
        start = max(0, len(data) + offset) if offset < 0 else offset
        return LogChunk(data=data[start : start + limit], offset=start, size=len(data))

    async def close(self) -> None:
        pass

    def _answer(self) -> None:
        if self.silent:
            raise SchedulerUnavailable("no answer")
