"""Batch scripts of a folder, and the copies of them that are submitted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aitne.core.jobs.command_arguments import parse_interpreter
from aitne.core.jobs.sbatch_import import is_batch_script

ENVIRONMENTS = ".environment"
"""Folder beside a copy into which its processes write their environments."""
TOOLS = "tools"
"""Folder whose contents are put beside each copy; other files of the folder are put there too."""
_CALL = re.compile(r"^#\s*Call:\s*sbatch\s+(.+)$", re.MULTILINE)
_NEEDS = re.compile(r"^#\s*Needs:\s*(.+)$", re.MULTILINE)
_SHELLS = {"sh", "bash", "dash", "ksh", "zsh"}


@dataclass(frozen=True)
class BatchScript:
    """A batch script, and how sbatch is called with it.

    A comment ``# Call: sbatch -N 2 NAME config.yml 4`` has options and arguments, a comment ``# Needs:
    mpirun`` programs without which the script is left out.
    """

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def call(self) -> tuple[str, ...]:
        """The command line of sbatch, without the program."""
        match = _CALL.search(self.text)
        return tuple(shlex.split(match[1])) if match else (self.path.name,)

    @cached_property
    def missing(self) -> str | None:
        """The program that the script needs and this machine lacks."""
        match = _NEEDS.search(self.text)
        words = [*(parse_interpreter(self.text) or ())[:1], *(match[1].split() if match else ())]
        return next((word for word in words if shutil.which(word) is None), None)

    def instrumented(self, environments: Path) -> str:
        """Return the text with a command before the first one, in the same line, which writes the
        environment of the script; the text as it is if its interpreter is no shell.
        """
        program = parse_interpreter(self.text)
        words = " ".join(program or ()).split()
        if not {Path(word).name for word in words} & _SHELLS:
            return self.text
        lines = self.text.split("\n")
        for number, line in enumerate(lines):
            if line.strip() and not line.lstrip().startswith("#"):
                target = f"{shlex.quote(str(environments))}/$SLURM_JOB_ID.script"
                lines[number] = f"env -0 > {target}; {line}"
                break
        return "\n".join(lines)


def read_scripts(folder: Path) -> list[BatchScript]:
    """Return the batch scripts of a folder by name: files for sbatch by their content or suffix."""
    return [
        BatchScript(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and _is_script(path)
    ]


def _is_script(path: Path) -> bool:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return False
    return path.suffix in (".sbatch", ".slurm") or is_batch_script(text)


def copy_script(script: BatchScript, place: Path, uid: int, gid: int) -> None:
    """Copy a script and the files that it needs into a new folder, which belongs to an account."""
    source = script.path.parent
    place.mkdir(parents=True)
    for path in [*_beside(source), *_contents(source / TOOLS)]:
        if path.is_dir():
            shutil.copytree(path, place / path.name, dirs_exist_ok=True)
        else:
            shutil.copy(path, place)
    (place / ENVIRONMENTS).mkdir()
    (place / script.path.name).write_text(script.instrumented(place / ENVIRONMENTS))
    shutil.copymode(script.path, place / script.path.name)
    for path in (place, *place.rglob("*")):
        os.chown(path, uid, gid)


def _beside(folder: Path) -> Iterable[Path]:
    return (path for path in folder.iterdir() if path.name != TOOLS and not _is_batch_file(path))


def _contents(folder: Path) -> Iterable[Path]:
    return folder.iterdir() if folder.is_dir() else ()


def _is_batch_file(path: Path) -> bool:
    return path.is_file() and _is_script(path)
