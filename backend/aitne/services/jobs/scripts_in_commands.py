"""Scripts among a job's commands: their files, what the scheduler shows of them, and their signal."""

from __future__ import annotations

import posixpath

from aitne.core.jobs.command_arguments import parse_interpreter
from aitne.core.jobs.job_folder_layout import command_file_name
from aitne.core.models.job import Job, JobSpec
from aitne.services.jobs.job_containers import get_workdir

MOST_DISPLAYED = 16 << 10
"""Maximum number of characters of arguments that the scheduler keeps to show them."""


def script_files(spec: JobSpec) -> dict[str, bytes]:
    """Return the contents of the scripts among the job's commands, by file name."""
    return {
        command_file_name(number): command.encode()
        for number, command in enumerate(spec.commands)
        if parse_interpreter(command) is not None
    }


def script_signal(spec: JobSpec) -> str | None:
    """Return the signal that only the shell of a command gets before the time limit; None if there
    is none.
    """
    receiver, _, rest = (spec.slurm.signal or "").rpartition(":")
    return rest.partition("@")[0] if receiver == "B" else None


def displayed_command(job: Job, folder: str) -> tuple[str, ...]:
    """Return the full path of the batch script that the job runs a copy of, and its arguments
    unless they are very long; empty if there is no such script, or its path is not known in full.

    Args:
        folder: path of the job folder.
    """
    spec = job.spec
    if spec.script_path is None:
        return ()
    path = spec.script_path
    if not path.startswith("~/"):
        path = posixpath.join(get_workdir(job, folder), path)
    if path.startswith("~/") and spec.home is not None:
        path = posixpath.join(spec.home, path[2:])
    if not path.startswith("/"):
        return ()
    small = sum(map(len, spec.args)) <= MOST_DISPLAYED
    return (path, *(spec.args if small else ()))
