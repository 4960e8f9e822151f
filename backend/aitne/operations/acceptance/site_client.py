"""The site under test: its API as one user, and the jobs that the steps have submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aitne.client import Client, Job
from aitne.client.records import Node
from aitne.core.errors import AitneError

WAIT_S = 600.0
"""Seconds for which a step waits for one of its jobs, with the time in the queue."""
_UNUSABLE = frozenset({"down", "drained", "draining"})


class StepFailed(Exception):
    """Error: a step has found that something does not work."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class StepSkipped(Exception):
    """Error: a step does not apply to this site; the message says why."""


@dataclass(slots=True)
class AcceptanceSite:
    """The site under test."""

    client: Client
    gpu: bool = False
    fabric: bool = False
    beegfs: bool = False
    venv: str | None = None
    """Virtual environment with PyTorch on the nodes; None: steps that need one are skipped."""
    jobs: list[str] = field(default_factory=list)
    """Jobs that the steps have submitted."""

    def usable_nodes(self) -> list[Node]:
        """Return the nodes that accept jobs."""
        return [node for node in self.client.nodes.list() if node.state not in _UNUSABLE]

    def has_slurm(self) -> bool:
        """Return whether Slurm is the scheduler: the embedded one has no states of its own."""
        return any(node.scheduler_state for node in self.client.nodes.list())

    def submit(self, name: str, *commands: str, **fields: Any) -> Job:
        """Submit a small job, and note it for the cleanup."""
        resources = {"cpu": 1, "memory": "256M", **fields.pop("resources", {})}
        job = self.client.jobs.create(
            {
                "name": f"acceptance: {name}",
                "commands": list(commands),
                "resources": resources,
                "max_duration": "10m",
                **fields,
            }
        )
        self.jobs.append(job.id)
        return job

    def wait_for_end(self, job: Job) -> Job:
        """Wait until the job has ended, and return its final record."""
        return self.client.jobs.wait(job.id, timeout_s=WAIT_S)

    def read_log(self, job: Job, task: int | None = None) -> str:
        """Return the log of a job, or of one task of an array."""
        chunks = self.client.jobs.logs(job.id, task=task)
        return b"".join(chunks).decode("utf-8", "replace")

    def wait_for_log(self, job: Job, remedy: str) -> str:
        """Wait until the job has ended, and return its log; empty for a task of an array.

        Raises ``StepFailed``, with the advice ``remedy``, if the job has not completed.
        """
        end = self.wait_for_end(job)
        log = "" if end.array_task_id is not None else self.read_log(job)
        if end.state != "COMPLETED":
            last = " ".join(log.split()[-40:])
            raise StepFailed(
                f"The job is {end.state}: {end.message or 'no message'}{' Log: ' if last else ''}{last}",
                remedy,
            )
        return log

    def wait(self, job: Job, until: Callable[[Job], bool]) -> Job:
        """Wait until the job's record satisfies ``until`` or the job has ended."""
        return self.client.jobs.wait(job.id, until=until, timeout_s=WAIT_S)

    def clean_up(self) -> list[str]:
        """Cancel the jobs of the steps that have not ended; return a sentence for each failure."""
        return list(self._cancel_jobs())

    def _cancel_jobs(self) -> Iterable[str]:
        while self.jobs:
            job_id = self.jobs.pop()
            try:
                if not self.client.jobs.get(job_id).ended:
                    self.client.jobs.cancel(job_id)
            except AitneError as error:
                yield f"{job_id} was not cancelled: {error.message}"
