"""Additional paths of a job's log, which a batch script names in ``--output``.

At each path a link to the log is created: a hard link, which outlives the job's folder, or a
symbolic link if the job's folder is on another file system. Nothing copies the log.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Mapping

from aitne.agent.spec import Spec

_NO_INDEX = 0xFFFFFFFE
"""Array index that Slurm uses for a job that is not an array."""


def create_log_links(spec: Spec, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Create links to the log of this run at the job's additional log paths, replacing the links of
    an earlier run.

    ``say`` writes a message to the log. It is called for a path where no link is possible; the job
    continues.
    """
    name = "output.log" if spec.task is None else f"output-{spec.task}.log"
    values = _get_pattern_values(spec, environ)
    for template in spec.log_files:
        path = os.path.expanduser(template.format(**values))
        path = os.path.join(os.path.expanduser(spec.workdir), path)
        try:
            _create_link(os.path.join(spec.job_dir, name), path)
        except OSError as error:
            say(f"the log does not appear at {path}: {error.strerror or error}. The job continues")


def _get_pattern_values(spec: Spec, environ: Mapping[str, str]) -> dict[str, int | str]:
    number = _parse_number(environ.get("SLURM_JOB_ID"))
    index = _NO_INDEX if spec.task is None else spec.task
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    array = _parse_number(environ.get("SLURM_ARRAY_JOB_ID")) or number
    values: dict[str, int | str] = {"A": array, "a": index, "b": index % 10, "j": number}
    values |= {"J": number, "n": 0, "t": 0, "r": spec.restart_count}
    # Slurm takes the name of the machine, which may have another name as a node.
    host = os.uname().nodename.partition(".")[0]
    return values | {"N": host, "s": "batch", "u": user}


def _parse_number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _create_link(log: str, path: str) -> None:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        if os.path.exists(path) and os.path.samefile(log, path):
            return  # of an earlier run of this attempt
        if not stat.S_ISREG(there.st_mode) and not stat.S_ISLNK(there.st_mode):
            raise OSError("something else than a file is there")
    beside = f"{path}.{os.getpid()}"
    try:
        os.link(log, beside)
    except OSError:
        os.symlink(log, beside)
    try:
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise
