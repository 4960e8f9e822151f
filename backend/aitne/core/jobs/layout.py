"""Locations of files: a job's, below the jobs directory, and those that the platform ships. The
single source of these paths."""

from __future__ import annotations

import re
from pathlib import PurePath
from uuid import UUID

SCRIPT = "script.sh"
AGENT_SPEC = "agent.json"
TOKEN = "token"  # noqa: S105 - a file's name


FENCE = "fence"
OUTCOME = "outcome"
UNNEEDED = re.compile(
    r"script\.sh|agent\.json|token|ssh-host-key|(?:command|params)-[0-9]+(?:\.json)?"
    r"|outcome(?:-[0-9]+)?|run(?:-[0-9]+)?|tls"
)
"""Names of what a job that has ended needs no more in the folder of an attempt."""


def job_dir(jobs_dir: PurePath, job_id: UUID, attempt: int) -> PurePath:
    """Return the folder of one attempt; the tasks of an array share it, named by the array job's
    id."""
    return jobs_dir / str(job_id) / str(attempt)


def command_name(number: int) -> str:
    """Return the name of the file of a command that is a script; commands count from 0."""
    return f"command-{number}"


def log_name(task: int | None) -> str:
    """Return the name of the log: the program's stdout and stderr merged."""
    return "output.log" if task is None else f"output-{task}.log"
