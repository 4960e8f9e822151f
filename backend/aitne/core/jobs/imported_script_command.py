"""Command that runs a batch script: its whole text, by its own interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aitne.core.jobs.command_arguments import parse_interpreter
from aitne.core.jobs.sbatch_conversion_state import SbatchConversion
from aitne.core.jobs.script_argument_detection import uses_arguments

_BASH = "#!/bin/bash"
_TO_SCRIPT = re.compile(
    r"^[^#]*\bscancel\s(?:[^#;|&]*\s)?(?:-[A-Za-z]*b[A-Za-z]*|--b[a-z]*)(?:\s|$)"
)
_OWN_PATH = re.compile(r"^[^#]*\bCommand\b")


def make_command(lines: Sequence[str], begin: int, conversion: SbatchConversion) -> str | None:
    """Return the script as a command with an interpreter; None if the script has no commands.

    The job has the script as a file, as with sbatch, so that ``$0``, ``BASH_SOURCE`` and the line
    numbers of messages are right. ``begin`` is the index of the first line that is neither blank
    nor a comment.
    """
    if begin >= len(lines):
        conversion.add_note(
            len(lines), "commands", "there are none: write the commands to run into `commands`"
        )
        return None
    text = "\n".join(lines)
    if parse_interpreter(text) is None:
        first, _, rest = text.partition("\n")
        conversion.add_note(
            1, first[:60], "names no interpreter by its path; here the script runs under bash"
        )
        text = f"{_BASH}\n{rest}"
    if not conversion.fields["args"] and uses_arguments(text):
        conversion.add_note(
            begin + 1,
            "args",
            "the script reads arguments and gets none: `aitne import -- SCRIPT ARGUMENTS`, or `args` "
            "in the job file",
        )
    return text


def check_own_record(lines: Sequence[str], begin: int, conversion: SbatchConversion) -> None:
    """Add a note if the script reads its own path in Slurm's record of the job. ``begin`` is as for
    ``make_command``.
    """
    if not any("scontrol" in line for line in lines[begin:]):
        return
    why = (
        "of `scontrol show job` is the script only where the platform submits by the "
        "slurmrestd of a release after 22.05, else (null): read $0"
    )
    _note_first(_OWN_PATH, lines, begin, conversion, "Command=", why)


def check_scancel(lines: Sequence[str], begin: int, conversion: SbatchConversion) -> None:
    """Add a note if the script sends a signal to batch scripts alone. ``begin`` is as for
    ``make_command``.
    """
    why = (
        "signals all processes of the script if it is for a job of the platform, whose exit code "
        "after TERM is 143 whatever a trap does"
    )
    _note_first(_TO_SCRIPT, lines, begin, conversion, "scancel --batch", why)


def _note_first(
    pattern: re.Pattern[str],
    lines: Sequence[str],
    begin: int,
    conversion: SbatchConversion,
    option: str,
    message: str,
) -> None:
    """Add a note about the first line from ``begin`` on in which the pattern is found."""
    for number, line in enumerate(lines[begin:], begin + 1):
        if pattern.search(line):
            conversion.add_note(number, option, message)
            return


def check_submit_dir(lines: Sequence[str], begin: int, conversion: SbatchConversion) -> None:
    """Add a note if the script reads ``SLURM_SUBMIT_DIR`` and the job has another folder there.
    ``begin`` is as for ``make_command``.
    """
    if not any("SLURM_SUBMIT_DIR" in line for line in lines[begin:]):
        return
    if "workdir" not in conversion.fields:
        why = "is the job's folder here, with sbatch the one that it was called in: set `workdir`"
        conversion.add_note(begin + 1, "SLURM_SUBMIT_DIR", why)
    elif conversion.folder is None:
        why = f"is {conversion.fields['workdir']} here; with --chdir sbatch sets the folder that it was called in"
        conversion.add_note(begin + 1, "SLURM_SUBMIT_DIR", why)
