"""Locations of the files of a job, below the jobs directory, and of the files that are part of the
platform. All code uses these.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from uuid import UUID

SCRIPT = "script.sh"
AGENT_SPEC = "agent.json"
TOKEN = "token"  # noqa: S105 - a file's name
TOPOLOGY = "topology.conf"
"""Switches of the network, for the order of a job's nodes."""

NOTEBOOK = "notebook.json"
"""Notebook that a job runs, and its parameters."""
EXECUTED_NOTEBOOK, EXECUTED_PAGE = "executed.ipynb", "executed.html"
"""Executed copy of a job's notebook, and its page; ``aitne.notebook.notebook_run`` writes both."""

FENCE = "fence"
OUTCOME = "outcome"
_EXECUTABLE = re.compile(r"slurm_script|command-[0-9]+")
UNNEEDED = re.compile(
    r"script\.sh|agent\.json|topology\.conf|notebook\.json|failure\.json|token|ssh-host-key"
    r"|slurm_script|(?:command|params)-[0-9]+(?:\.json)?"
    r"|outcome(?:-[0-9]+)?(?:\.reserved)?|run(?:-[0-9]+)?|tls"
)
"""Names of files in the folder of an attempt that are no longer needed after the job has ended."""


def make_attempt_dir(jobs_dir: PurePath, job_id: UUID, attempt: int) -> PurePath:
    """Return the folder of one attempt of a job. All tasks of an array share one folder: for a
    task, ``job_id`` must be the ID of the array job.
    """
    return jobs_dir / str(job_id) / str(attempt)


def get_file_mode(name: str) -> int:
    """Return the mode of a file of an attempt: commands of the job may be executed."""
    return 0o700 if _EXECUTABLE.fullmatch(name) else 0o600


def command_file_name(number: int) -> str:
    """Return the name of the file that contains a command that is a script; ``number`` counts the
    commands from 0. The first one has the name of Slurm's copy of a batch script, which programs see
    as ``$0``.
    """
    return f"command-{number}" if number else "slurm_script"


def log_file_name(task: int | None) -> str:
    """Return the name of the log file with the program's stdout and stderr; ``task`` is the index
    of an array's task or None.
    """
    return "output.log" if task is None else f"output-{task}.log"


def result_file_name(task: int | None, rank: int) -> str:
    """Return the name of the file with the value that a submitted function returned on a rank.
    ``task`` is the index of an array's task or None.
    """
    return f"{_make_result_prefix(task)}.{rank}"


def result_error_file_name(task: int | None) -> str:
    """Return the name of the file with the first exception that a submitted function raised on any
    rank. ``task`` is the index of an array's task or None.
    """
    return f"{_make_result_prefix(task)}.error"


def _make_result_prefix(task: int | None) -> str:
    return "result" if task is None else f"result-{task}"
