"""Commands of a batch script, and the environment that its first commands load."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aitne.core.jobs.commands import interpreter
from aitne.core.jobs.sbatch_options import SbatchConversion

# Whatever a line holds, a part of a pattern must never be able to take what its neighbour takes: two that
# share the blanks between them try every way to do so.
_MODULE = re.compile(r"(?:module|ml)\s+(?:load|add)\s+([^#]*)(?:#.*)?")
_MODULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,199}")
_PURGE = re.compile(r"(?:module|ml)\s+purge\s*(?:#.*)?")
_CONDA = re.compile(r"(?:conda|mamba|source)\s+activate\s+([^\s'\"$;&|<>()`\\#*?]+)\s*(?:#.*)?")
_VENV = re.compile(r"(?:source|\.)\s+([^\s'\"$;&|<>()`\\#*?]+)/bin/activate\s*(?:#.*)?")
_PLAIN = re.compile(r"#![ \t]*/(?:\S*/)?(?:env[ \t]+)?bash")
_SHELL = re.compile(r"#![ \t]*/(?:\S*/)?(?:env[ \t]+)?(?:ba)?sh(?:[ \t]+(.*))?")
_LOGIN = re.compile(r"(?:^|\s)(?:-[A-Za-z]*l|--login\b)")


@dataclass
class ScriptBody:
    """Part of a batch script after its ``#SBATCH`` lines: commands and environment."""

    command: str = ""
    modules: list[str] = field(default_factory=list)
    conda: str | None = None
    venv: str | None = None


def read_body(
    lines: list[str], begin: int, wish: SbatchConversion, folder: str | None
) -> ScriptBody:
    """Return the commands without the leading lines that load modules or an environment, which
    become part of the job's environment.

    A script that names another interpreter than bash keeps its first line. ``begin`` is the index
    of the first line that is neither blank nor a comment.
    """
    body = ScriptBody()
    shebang = lines[0].strip() if lines and lines[0].startswith("#!") else ""
    if not shebang:
        wish.note(1, "#!", "is missing, so sbatch would refuse the script; here it runs under bash")
    elif interpreter(shebang) is None:
        wish.note(
            1, shebang[:60], "names no interpreter by its path; here the script runs under bash"
        )
        shebang = ""
    shell = _SHELL.fullmatch(shebang)
    rest = begin
    # The profile of a login shell may undo what was loaded before it.
    if not shebang or (shell and not _LOGIN.search(shell[1] or "")):
        while rest < len(lines) and _environment(lines[rest].strip(), rest + 1, body, wish):
            rest += 1
    # Directives end where the commands begin: further lines may be those of another script.
    body.command = "\n".join(lines[rest:]).strip("\n")
    if not body.command.strip():
        body.command = ""
        wish.note(
            len(lines), "commands", "there are none: write the commands to run into `commands`"
        )
    elif shebang and not _PLAIN.fullmatch(shebang):
        body.command = f"{shebang}\n{body.command}"
    _check_submit_dir(body.command, rest + 1, wish, folder)
    return body


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


def _environment(line: str, number: int, body: ScriptBody, wish: SbatchConversion) -> bool:
    """Add what the line loads to the environment of ``body``, and return True; return False if the
    line must stay a command.
    """
    if not line or line.startswith("#"):
        return True
    if _PURGE.fullmatch(line):
        wish.note(
            number,
            "module purge",
            "is not needed: a job starts without modules",
            changes_execution=False,
        )
        return True
    if loaded := _MODULE.fullmatch(line):
        names = loaded[1].split()
        if names and all(map(_MODULE_NAME.fullmatch, names)) and not (body.conda or body.venv):
            body.modules += names
            return True
        return False
    if body.conda or body.venv:
        return False
    if match := _VENV.fullmatch(line):
        if match[1].startswith(("/", "~/")):
            body.venv = match[1]
            return True
        return False
    if match := _CONDA.fullmatch(line):
        body.conda = match[1]
        return True
    return False
