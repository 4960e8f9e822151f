"""Hints for command lines that are right for another program, such as sbatch."""

from __future__ import annotations

from typing import Any

from aitne.core.jobs.other_words import job_file_field

SUBMITTING = ("apply", "plan", "import", "resubmit", "start", "submit", "run")
"""Commands at which options of sbatch are expected."""


def of(error: Any) -> str | None:
    """Return a sentence that says how it is written here; None if there is no hint."""
    context = getattr(error, "ctx", None)
    if context is None or context.info_name not in SUBMITTING:
        return None
    option = getattr(error, "option_name", None)
    field = None if option is None else job_file_field(option)
    if field is None:
        return None
    known = {name for parameter in context.command.params for name in parameter.opts}
    here = f"--{field.rpartition('.')[2].replace('_', '-')}"
    if here in known:
        return f"{option} is {here} here."
    return f"{option} is not an option here: set {field} in the job file."
