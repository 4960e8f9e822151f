"""Conversion of a batch script for ``sbatch`` to a job file, with notes on what was left out.

The lines are read as sbatch reads them (https://slurm.schedmd.com/sbatch.html): ``#SBATCH`` at the
beginning of a line, up to the first command; quotes and comments as there; of an option that is
there twice the last counts; long options may be cut short. The whole script, as it is, becomes one
command.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from aitne.core.jobs import sbatch_amounts, sbatch_names, sbatch_options
from aitne.core.jobs.sbatch_body import read_body
from aitne.core.jobs.sbatch_options import Note, SbatchConversion, SbatchOption
from aitne.core.models.base import Frozen
from aitne.core.models.job_file import JobFile

MAX_CHARS = 256 << 10
LONGEST_DIRECTIVE = 4_096
"""Maximum number of characters of a directive; longer ones could occupy the parser for too long."""
MOST_DIRECTIVES = 1_000
_DIRECTIVE = re.compile(r"#(?:SBATCH|SLURM)(.*)", re.DOTALL)
_OTHER_DIRECTIVE = re.compile(r"#(?:PBS|BSUB|BB|DW|STB)\s+\S")
"""Pattern of directives of PBS and LSF, which sbatch translates, and of burst buffers."""


class ImportedScript(Frozen):
    """Job file converted from a batch script, and notes on what could not be converted."""

    file: dict[str, Any]
    notes: tuple[Note, ...]


def import_sbatch(text: str, folder: str | None = None, name: str | None = None) -> ImportedScript:
    """Convert a batch script. The result is always a valid job file; the notes list what was
    omitted or changed.

    ``folder`` is the folder in which sbatch would be called, where the job starts; None: unknown,
    which is noted. ``name`` is the path of the script, in full or from ``folder``; its last part is
    the name of a job without ``--job-name``, as with sbatch. None: unknown.

    Raises:
        ValueError: the script is too long, contains a character that no program can receive, or
            describes a job that the platform cannot run, such as a heterogeneous job.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a batch script of more than {MAX_CHARS >> 10} KiB is refused")
    if "\0" in text:
        raise ValueError("a batch script has no NUL characters; this is another kind of file")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    wish = SbatchConversion()
    begin = _body_begins(lines)
    directives = 0
    for number, line in enumerate(lines, 1):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            if number - 1 < begin and _OTHER_DIRECTIVE.match(line):
                word = line.split()[0]
                wish.note(number, word, "is not converted: write the option as #SBATCH")
            continue
        if number - 1 >= begin:
            wish.note(
                number,
                "#SBATCH",
                "comes after the first command, where sbatch ignores it",
                changes_execution=False,
            )
            continue
        directives += 1
        if directives > MOST_DIRECTIVES:
            wish.note(number, "#SBATCH", f"more than {MOST_DIRECTIVES} are not read")
            break
        if len(line) > LONGEST_DIRECTIVE:
            wish.note(number, "#SBATCH", f"has more than {LONGEST_DIRECTIVE} characters: left out")
            continue
        if directive[1].split()[:1] in (["hetjob"], ["packjob"]):
            raise ValueError(
                f"line {number}: a heterogeneous job cannot be imported, because all nodes of a job "
                "get the same resources: import each component as a job of its own"
            )
        for option in _options(number, directive[1], wish):
            sbatch_options.take(wish, option)
    if "\r" in text:
        wish.note(
            1, "line ends", "were those of Windows, which sbatch refuses; they were converted"
        )
    if "workdir" not in wish.lines:
        if folder is None:
            wish.note(
                1,
                "workdir",
                "sbatch starts a job where it is called, this one starts in the home folder",
            )
        else:
            wish.fields["workdir"] = folder
    command = read_body(lines, begin, wish, folder)
    if name:
        wish.fields.setdefault("name", posixpath.basename(name))
    if name and command is not None:
        wish.fields["script_path"] = _script_path(name, folder, wish.fields.get("workdir"))
    return _checked(_assemble(wish, command), wish)


def _script_path(name: str, folder: str | None, workdir: str | None) -> str:
    """Return the path of the script from the job's working directory, in which the script stays if
    the job runs in a copy of that folder; in full if the two folders differ.
    """
    return name if workdir == folder or folder is None else posixpath.join(folder, name)


def _body_begins(lines: list[str]) -> int:
    """Return the index of the first line that is neither blank nor a comment."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            return index
    return len(lines)


def _words(text: str) -> Iterator[str]:
    """Yield the arguments of a directive: text in quotes is one argument, ``#`` starts a
    comment.
    """
    word: list[str] | None = None
    quote = ""
    escaped = False
    for char in text:
        if escaped:
            word = word or []
            word.append(char)
            escaped = False
        elif quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"':
                escaped = True
            else:
                word = word or []
                word.append(char)
        elif char == "\\":
            escaped = True
        elif char in "'\"":
            quote, word = char, word or []
        elif char == "#":
            break
        elif char.isspace():
            if word is not None:
                yield "".join(word)
            word = None
        else:
            word = word or []
            word.append(char)
    if word is not None:
        yield "".join(word)


def _options(line: int, text: str, wish: SbatchConversion) -> Iterator[SbatchOption]:
    words = deque(_words(text))
    while words:
        word = words.popleft()
        if word.startswith("--"):
            written_name, equals, value = word[2:].partition("=")
            name = _long(written_name)
            if name is None:
                wish.note(
                    line, f"--{written_name}", "is not an option of sbatch that is known here"
                )
                if not equals and words and not words[0].startswith("-"):
                    words.popleft()
                continue
            if equals and name in sbatch_names.NO_VALUE:
                wish.note(line, f"--{name}", "takes no value, so sbatch refuses the script")
                continue
            if not equals and name not in sbatch_names.OPTIONAL_VALUE | sbatch_names.NO_VALUE:
                if not words:
                    wish.note(line, f"--{name}", "has no value")
                    continue
                value, equals = words.popleft(), "="
            yield SbatchOption(line, name, value if equals else None)
        elif word.startswith("-") and len(word) > 1:
            letter = word[1]
            name = sbatch_names.SHORT.get(letter)
            if name is None:
                wish.note(line, f"-{letter}", "is not an option of sbatch that is known here")
                continue
            if name in sbatch_names.NO_VALUE:
                yield SbatchOption(line, name, None)
                if word[2:]:
                    words.appendleft(f"-{word[2:]}")
                continue
            if name in sbatch_names.OPTIONAL_VALUE:
                yield SbatchOption(line, name, word[2:] or None)
                continue
            value = word[2:] or (words.popleft() if words else "")
            if not value:
                wish.note(line, f"-{letter}", "has no value")
                continue
            yield SbatchOption(line, name, value)
        else:
            wish.note(line, word, "is not an option")


def _long(prefix: str) -> str | None:
    """Return the full name of an option, which may be abbreviated to an unambiguous prefix; None if
    the option does not exist or the prefix is ambiguous.
    """
    options = sbatch_options.KNOWN
    meant = (
        [prefix]
        if prefix in options
        else [name for name in options if prefix and name.startswith(prefix)]
    )
    names = {sbatch_names.ALIASES.get(name, name) for name in meant}
    return names.pop() if len(names) == 1 else None


def _assemble(wish: SbatchConversion, command: str | None) -> dict[str, Any]:
    sbatch_options.count_named_nodes(wish)
    resources = sbatch_amounts.resources(wish)
    setup = sbatch_amounts.step_setup(wish, command or "")
    if wish.extra:
        wish.slurm["extra"] = [*wish.extra.values()]
    file = {
        "name": wish.fields.pop("name", None),
        **wish.fields,
        "environment": {"setup": setup} if setup else {},
        "commands": [command] if command else [],
        "env": wish.env,
        "resources": resources,
        "log_files": sbatch_options.log_files(wish),
        "placement": wish.placement,
        "slurm": wish.slurm,
    }
    ordered = ["name", "environment", "commands", "script_path", "workdir", "env", "resources"]
    ordered += [
        "max_duration",
        "array",
        "singleton",
        "begin",
        "hold",
        "log_files",
        "placement",
        "slurm",
    ]
    return {name: file[name] for name in ordered if file.get(name)}


def _checked(file: dict[str, Any], wish: SbatchConversion) -> ImportedScript:
    """Return the result after removing invalid fields, with a note for each, until the remaining
    fields are a valid job file.
    """
    while True:
        try:
            JobFile.model_validate(file)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=False):
                _drop(file, problem["loc"], problem["msg"], wish)
        else:
            return ImportedScript(
                file=file, notes=tuple(sorted(wish.notes, key=lambda note: note.line))
            )


def _drop(
    file: dict[str, Any], path: tuple[int | str, ...], message: str, wish: SbatchConversion
) -> None:
    names = [str(part) for part in path]
    parent: Any = file
    for depth, part in enumerate(path):
        child = parent.get(part) if isinstance(parent, dict) else None
        nested = isinstance(child, dict) and depth + 1 < len(path) and path[depth + 1] in child
        if not nested:
            field = ".".join(names[: depth + 1])
            if isinstance(parent, dict):
                parent.pop(part, None)
            reason = message.removeprefix("Value error, ").rstrip(".")
            wish.note(wish.lines.get(field, 1), field, f"is not a valid value: {reason}")
            break
        parent = child
    for name in [name for name, value in file.items() if value in ({}, [])]:
        del file[name]
