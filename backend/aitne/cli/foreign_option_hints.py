"""Hints for options that are valid in another program, such as sbatch, but not in this one."""

from __future__ import annotations

from typing import Any

from aitne.core.jobs.foreign_field_names import find_job_file_field

SUBMITTING = ("apply", "plan", "import", "resubmit", "start", "submit", "run")
"""Commands at which users may type options of sbatch."""


def find_hint(error: Any) -> str | None:
    """Return a hint how the rejected option is written in this program; None if there is none.
    ``error`` is the parser's error."""
    context = getattr(error, "ctx", None)
    if context is None or context.info_name not in SUBMITTING:
        return None
    option = getattr(error, "option_name", None)
    field = None if option is None else find_job_file_field(option)
    if field is None:
        return None
    known = {name for parameter in context.command.params for name in parameter.opts}
    here = f"--{field.rpartition('.')[2].replace('_', '-')}"
    if here in known:
        return f"{option} is {here} here."
    return f"{option} is not an option here: set {field} in the job file."
