"""Where a job's files lie, below the jobs directory. Everyone who reads or writes them asks here."""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID

SCRIPT = "script.sh"
AGENT_SPEC = "agent.json"
TOKEN = "token"  # noqa: S105 - a file's name


FENCE = "fence"
OUTCOME = "outcome"


def job_dir(jobs_dir: PurePath, job_id: UUID, attempt: int) -> PurePath:
    """The folder of one attempt; the tasks of an array share it, named by the array job's id."""
    return jobs_dir / str(job_id) / str(attempt)


def log_name(task: int | None) -> str:
    """The file with what the program wrote, stdout and stderr merged."""
    return "output.log" if task is None else f"output-{task}.log"
