"""The commands of a batch script, and the environment that its first lines make."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aitne.core.jobs.sbatch_options import SbatchConversion

# Whatever a line holds, a part of a pattern must never be able to take what its neighbour takes: two that
# share the blanks between them try every way to do so.
_MODULE = re.compile(r"(?:module|ml)\s+(?:load|add)\s+([^#]*)(?:#.*)?")
_MODULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,199}")
_PURGE = re.compile(r"(?:module|ml)\s+purge\s*(?:#.*)?")
_CONDA = re.compile(r"(?:conda|mamba|source)\s+activate\s+([^\s'\"$;&|<>()`\\#*?]+)\s*(?:#.*)?")
_VENV = re.compile(r"(?:source|\.)\s+([^\s'\"$;&|<>()`\\#*?]+)/bin/activate\s*(?:#.*)?")
_STARTS_TASKS = re.compile(r"\s*(?:srun|mpirun|mpiexec)\b")
_SHELLS = re.compile(r"#!\s*(?:/usr/bin/env\s+)?(?:\S*/)?bash(?:\s+(.*))?")


@dataclass
class ScriptBody:
    """Rest of a batch script after its directives."""

    command: str = ""
    modules: list[str] = field(default_factory=list)
    conda: str | None = None
    venv: str | None = None


def read_body(lines: list[str], begin: int, wish: SbatchConversion) -> ScriptBody:
    """Take the leading lines that load modules or an environment out of the commands."""
    body = ScriptBody()
    shebang = lines[0] if lines and lines[0].startswith("#!") else ""
    if not shebang:
        wish.note(1, "#!", "is missing, so sbatch would refuse the script; here it runs under bash")
    else:
        _interpreter(shebang, wish)
    rest = begin
    while rest < len(lines) and _environment(lines[rest].strip(), rest + 1, body, wish):
        rest += 1
    commands = [line for line in lines[rest:] if not line.startswith("#SBATCH")]
    body.command = "\n".join(commands).strip("\n")
    if not body.command.strip():
        body.command = ""
        wish.note(
            len(lines), "commands", "there are none: write the commands to run into `commands`"
        )
    if "SLURM_SUBMIT_DIR" in body.command and "workdir" not in wish.fields:
        wish.note(
            rest + 1,
            "SLURM_SUBMIT_DIR",
            "is the folder that sbatch was called in, which a job file does not know: set `workdir`",
        )
    if any(_STARTS_TASKS.match(line) for line in commands):
        wish.note(
            rest + 1,
            "srun",
            "starts as many tasks as Slurm gives the job; write `srun --ntasks-per-node=N`, or let "
            "`distributed` start the ranks",
            serious=wish.tasks_asked,
        )
    return body


def _interpreter(shebang: str, wish: SbatchConversion) -> None:
    match = _SHELLS.fullmatch(shebang.strip())
    if match is None:
        wish.note(
            1, shebang.strip()[:60], "runs here under bash: let `commands` call the interpreter"
        )
    elif match[1] and "-e" not in match[1].split():
        wish.note(1, f"bash {match[1]}"[:60], "the shell's own options are not converted")


def _environment(line: str, number: int, body: ScriptBody, wish: SbatchConversion) -> bool:
    """Return whether the line only sets up the environment, so that it need not stay a command."""
    if not line or line.startswith("#"):
        return True
    if _PURGE.fullmatch(line):
        wish.note(
            number, "module purge", "is not needed: a job starts without modules", serious=False
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
