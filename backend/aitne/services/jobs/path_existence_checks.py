"""Check that the folders and files that a job names exist for its Unix account on this machine."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitne.core.errors import FieldProblem
from aitne.core.models.job import JobSpec
from aitne.core.models.storage_area import PathFacts
from aitne.core.storage.areas import is_within
from aitne.services.jobs.job_containers import list_own_folders

_SCRIPT = re.compile(
    r"(?:(?:python[0-9.]*|bash|sh) )?(\.?/?[A-Za-z0-9_][A-Za-z0-9_./-]*\.(?:py|sh))(?: [^;&|<>\n]*)?"
)
"""Pattern of a command that runs one script file; other commands are not examined."""
_CHECKABLE = re.compile(r"/[^\x00-\x1f\x7f]{1,3999}")
"""Pattern of the paths that the broker accepts."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """Path of a file or folder that must exist when the job starts."""

    field: str
    value: str
    """The value in the job file."""
    path: str
    kind: str
    """``folder`` or ``file``, as in ``PathFacts``."""
    missing: str
    """Message if it does not exist."""
    required: bool = True
    """False if the job may be able to run without it."""


def named_paths(spec: JobSpec) -> tuple[NamedPath, ...]:
    """Return the paths that a job names: its working folder, its virtual environment, and the
    script of its first command. Those that may exist only in its image are omitted."""
    paths = []
    # The folder of a tree or repository does not exist before the job starts.
    own = spec.tree is not None or spec.repo is not None
    folder = None if own else _expand_home(spec.workdir or "~", spec.home)
    if spec.workdir is not None and folder is not None:
        paths.append(
            NamedPath("workdir", spec.workdir, folder, "folder", f"there is no folder {folder}")
        )
    venv = None if spec.environment.venv is None else _expand_home(spec.environment.venv, spec.home)
    if venv is not None:
        program = posixpath.join(venv, "bin/python")
        paths.append(
            NamedPath(
                "environment.venv",
                spec.environment.venv or "",
                program,
                "file",
                f"{venv} is no virtual environment: there is no program {program}",
            )
        )
    script = None if folder is None else _find_script_path(spec)
    if script is not None and folder is not None:
        path = posixpath.join(folder, script.removeprefix("./"))
        paths.append(
            NamedPath(
                "commands.0",
                spec.commands[0],
                path,
                "file",
                f"there is no file {path}",
                required=False,
            )
        )
    if spec.notebook is not None and not own:
        notebook = _expand_home(spec.notebook.path, spec.home)
        if notebook is None and folder is not None:
            notebook = posixpath.join(folder, spec.notebook.path)
        if notebook is not None:
            paths.append(
                NamedPath(
                    "notebook.path",
                    spec.notebook.path,
                    notebook,
                    "file",
                    f"there is no file {notebook}",
                )
            )
    checkable = [named for named in paths if _CHECKABLE.fullmatch(named.path)]
    if spec.image_use is None:
        return tuple(checkable)
    return tuple(named for named in checkable if is_within(named.path, list_own_folders(spec)))


def check_paths(
    spec: JobSpec, facts_by_path: Mapping[str, PathFacts], *, remote: bool
) -> tuple[Sequence[FieldProblem], Sequence[str]]:
    """Return problems with the paths that a job names, and notes for the user about paths whose
    existence is uncertain.

    Args:
        spec: specification of the job.
        facts_by_path: what the job's Unix account sees at each path on this machine.
        remote: whether the job runs on other machines, where paths outside the shared folders may
            exist even if they do not exist here.
    """
    problems, notes = [], []
    for named in named_paths(spec):
        facts = facts_by_path[named.path]
        if facts.kind == named.kind:
            continue
        if not facts.has_answer:
            notes.append(f"{named.path} could not be checked: {facts.problem}.")
            continue
        message = named.missing
        if facts.kind is not None:
            message = f"{named.path} is not a {named.kind}"
        elif not facts.is_missing:
            message = f"{named.path} cannot be reached: {facts.problem}"
        if not named.required:
            notes.append(f"{_capitalize(message)}, which the first command runs.")
        elif spec.after:
            notes.append(f"{_capitalize(message)} yet: a job that it waits for must create it.")
        elif remote and not is_within(named.path, list_own_folders(spec)):
            notes.append(
                f"{_capitalize(message)} on the platform's machine: the job fails unless its nodes have it."
            )
        else:
            problems.append(FieldProblem(named.field, message, named.value))
    return problems, notes


def _expand_home(path: str, home: str | None) -> str | None:
    """Return the path with ``~`` replaced by the home folder; None if the result is unknown."""
    if path.startswith("/"):
        return path
    if home is None or (path != "~" and not path.startswith("~/")):
        return None
    return home.rstrip("/") + path[1:]


def _find_script_path(spec: JobSpec) -> str | None:
    """Return the path of the script that the first command runs; None if the command does not have
    the form of a script call.
    """
    if not spec.commands or spec.environment.setup:
        return None
    match = _SCRIPT.fullmatch(spec.commands[0].strip())
    return None if match is None else match[1]


def _capitalize(message: str) -> str:
    return message[:1].upper() + message[1:]
