"""Command that runs a batch script: its whole text, by its own interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from aitne.core.jobs.commands import interpreter
from aitne.core.jobs.sbatch_options import SbatchConversion

_BASH = "#!/bin/bash"


def read_body(
    lines: Sequence[str], begin: int, wish: SbatchConversion, folder: str | None
) -> str | None:
    """Return the script as a command with an interpreter; None if the script has no commands.

    The job has the script as a file, as with sbatch, so that ``$0``, ``BASH_SOURCE`` and the line
    numbers of messages are right. ``begin`` is the index of the first line that is neither blank
    nor a comment.
    """
    if begin >= len(lines):
        wish.note(
            len(lines), "commands", "there are none: write the commands to run into `commands`"
        )
        return None
    text = "\n".join(lines)
    if not text.startswith("#!"):
        wish.note(1, "#!", "is missing, so sbatch would refuse the script; here it runs under bash")
        text = f"{_BASH}\n{text}"
    elif interpreter(text) is None:
        first, _, rest = text.partition("\n")
        wish.note(
            1, first[:60], "names no interpreter by its path; here the script runs under bash"
        )
        text = f"{_BASH}\n{rest}"
    _check_submit_dir("\n".join(lines[begin:]), begin + 1, wish, folder)
    return text


def _check_submit_dir(command: str, line: int, wish: SbatchConversion, folder: str | None) -> None:
    if "SLURM_SUBMIT_DIR" not in command:
        return
    if "workdir" not in wish.fields:
        why = (
            "is the folder that sbatch was called in, which a job file does not know: set `workdir`"
        )
        wish.note(line, "SLURM_SUBMIT_DIR", why)
    elif wish.fields["workdir"] != folder:
        why = f"is {wish.fields['workdir']} here; with --chdir sbatch sets the folder that it was called in"
        wish.note(line, "SLURM_SUBMIT_DIR", why)
