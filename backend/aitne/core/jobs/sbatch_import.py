"""Conversion of a batch script for ``sbatch`` to a job file, with notes on what was left out.

The lines are read as sbatch reads them (https://slurm.schedmd.com/sbatch.html): ``#SBATCH`` at the
beginning of a line, up to the first command; quotes and comments as there; of an option that is
there twice the last counts; long options may be cut short. Options of sbatch's environment and
command line follow those of the script. The whole script, as it is, becomes one command. What sbatch
refuses is refused here.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from aitne.core.cluster.slurm_settings import LAYOUT_OPTIONS
from aitne.core.jobs import sbatch_options, sbatch_resources
from aitne.core.jobs.imported_script_command import (
    check_own_record,
    check_scancel,
    check_submit_dir,
    make_command,
)
from aitne.core.jobs.sbatch_call_parser import WRAP, SbatchCall
from aitne.core.jobs.sbatch_conversion_state import Note, SbatchConversion
from aitne.core.jobs.sbatch_option_parser import (
    COMMAND_LINE,
    SbatchOption,
    parse_options,
    refuse_option,
    split_directive,
)
from aitne.core.models.base import Frozen
from aitne.core.models.job_file import JobFile

MAX_CHARS = 256 << 10
LONGEST_DIRECTIVE = 4_096
"""Maximum number of characters of a directive; longer ones could occupy the parser for too long."""
MOST_DIRECTIVES = 1_000
_DIRECTIVE = re.compile(r"#(?:SBATCH|SLURM)(.*)", re.DOTALL)
_OTHER_DIRECTIVE = re.compile(r"#(?:PBS|BSUB|BB|DW|STB)\s+\S")
"""Pattern of directives of PBS and LSF, which sbatch translates, and of burst buffers."""


_QUEUE = ("slurm.partition", "slurm.qos", "slurm.account", "slurm.reservation", "slurm.constraint")
"""Fields that decide where and for whom a job runs: without them it would run elsewhere."""


class ImportedScript(Frozen):
    """Job file converted from a batch script, and notes on what could not be converted."""

    file: dict[str, Any]
    notes: tuple[Note, ...]
    lines: dict[str, int]
    """Lines of the script from which fields of the job file come."""


def import_sbatch(
    text: str,
    folder: str | None = None,
    path: str | None = None,
    *,
    call: SbatchCall | None = None,
    synced: str | None = None,
    permitted: Collection[str] = LAYOUT_OPTIONS,
) -> ImportedScript:
    """Convert a batch script. The result is always a valid job file; the notes list what was
    omitted or changed.

    Args:
        text: the batch script.
        folder: folder in which sbatch would be called, where the job starts; None: unknown, which
            is noted.
        path: path of the script, in full or from ``folder``; its last part is the name of a job
            without ``--job-name``, as with sbatch; ``-`` is the standard input. None: unknown.
        call: command line and environment of sbatch; None: only the script counts.
        synced: folder in a copy of whose files the job runs (``--sync``), instead of ``folder``;
            None: none is uploaded.
        permitted: options that the site permits in ``slurm.extra``.

    Raises:
        ValueError: sbatch refuses the script, or it describes a job that the platform cannot run,
            such as a heterogeneous job.
    """
    call = call or SbatchCall()
    lines = _split_lines(text)
    wish = SbatchConversion(folder=folder, permitted=frozenset(permitted))
    begin = _find_body_start(lines)
    for option in _select_last_options([*_read_directives(lines, begin, wish), *call.options]):
        sbatch_options.convert_option(wish, option)
        if option.variable is not None:
            message = f"is set by {option.variable} of the environment"
            wish.add_note(COMMAND_LINE, f"--{option.name}", message, changes_execution=False)
    _set_workdir(wish, synced)
    if call.wrap is not None:
        wish.fields.setdefault("name", WRAP)
    elif path is not None:
        wish.fields.setdefault("name", "sbatch" if path == "-" else posixpath.basename(path))
    wish.fields["args"] = list(call.arguments)
    command = make_command(lines, begin, wish)
    check_own_record(lines, begin, wish)
    check_scancel(lines, begin, wish)
    if synced is None:
        check_submit_dir(lines, begin, wish)
    if path not in (None, "-") and call.wrap is None and command is not None:
        wish.fields["script_path"] = _script_path(path, wish, synced)
    return _remove_invalid_fields(_assemble_job_file(wish, command), wish)


def _script_path(path: str, conversion: SbatchConversion, synced: str | None) -> str:
    """Return the path of the script from the job's working directory, in which the script stays if
    the job runs in a copy of that folder; in full if the script is elsewhere.
    """
    if conversion.folder is None:
        return path
    if synced is not None:
        return posixpath.relpath(posixpath.join(conversion.folder, path), synced)
    return (
        path
        if conversion.fields.get("workdir") == conversion.folder
        else posixpath.join(conversion.folder, path)
    )


def is_batch_script(text: str) -> bool:
    """Return whether a text is a script for sbatch: it begins with ``#!`` and has a directive,
    also after a byte order mark, for which sbatch refuses it.
    """
    return text.startswith(("#!", "\ufeff#!")) and any(map(_DIRECTIVE.match, text.split("\n")))


def _split_lines(text: str) -> list[str]:
    """Return the lines of a batch script. Raises ``ValueError`` for a text that sbatch refuses."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"a batch script of more than {MAX_CHARS >> 10} KiB is refused")
    if "\0" in text:
        raise ValueError("a batch script has no NUL characters; this is another kind of file")
    if text.startswith("\ufeff"):
        raise ValueError(
            "line 1: sbatch refuses a script with a byte order mark before #!: save it as UTF-8 without one"
        )
    if not text.startswith("#!"):
        raise ValueError(
            "line 1: sbatch refuses a script that does not begin with #! and an interpreter, such as "
            "#!/bin/bash"
        )
    if "\r\n" in text:
        number = text[: text.index("\r\n")].count("\n") + 1
        raise ValueError(
            f"line {number}: sbatch refuses line ends of Windows; `dos2unix` converts them"
        )
    return text.split("\n")


def _select_last_options(options: Sequence[SbatchOption]) -> Iterable[SbatchOption]:
    """Return the last one of each option, in order. Raises ``ValueError`` for an option that sbatch
    refuses, even if a later one replaces it.
    """
    last: dict[str, SbatchOption] = {}
    draft = SbatchConversion()
    for option in options:
        sbatch_options.convert_option(draft, option)
        last.pop(option.name, None)
        last[option.name] = option
    return last.values()


def _read_directives(
    lines: list[str], begin: int, conversion: SbatchConversion
) -> Iterator[SbatchOption]:
    """Yield the options of all directives before the line with the index ``begin``. Raises
    ``ValueError`` for a directive that sbatch refuses.
    """
    directives = 0
    for number, line in enumerate(lines, 1):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            if number - 1 < begin and _OTHER_DIRECTIVE.match(line):
                word = line.split()[0]
                conversion.add_note(number, word, "is not converted: write the option as #SBATCH")
            continue
        if number - 1 >= begin:
            conversion.add_note(
                number,
                "#SBATCH",
                "comes after the first command, where sbatch ignores it",
                changes_execution=False,
            )
            continue
        directives += 1
        if directives > MOST_DIRECTIVES:
            conversion.add_note(number, "#SBATCH", f"more than {MOST_DIRECTIVES} are not read")
            break
        if len(line) > LONGEST_DIRECTIVE:
            conversion.add_note(
                number, "#SBATCH", f"has more than {LONGEST_DIRECTIVE} characters: left out"
            )
            continue
        if directive[1].split()[:1] in (["hetjob"], ["packjob"]):
            raise ValueError(
                f"line {number}: a heterogeneous job cannot be imported, because all nodes of a job "
                "get the same resources: import each component as a job of its own"
            )
        words = deque(split_directive(number, directive[1]))
        yield from parse_options(number, words, sbatch_options.KNOWN)
        if words:
            refuse_option(SbatchOption(number, "#SBATCH", None), f"{words[0]!r} is not an option")


def _set_workdir(conversion: SbatchConversion, synced: str | None) -> None:
    """Set the folder in which the job starts, with a note if sbatch would start it elsewhere."""
    line = conversion.lines.get("workdir", 1)
    if synced is not None:
        start = conversion.fields.pop("workdir", conversion.folder)
        if start != synced:
            message = f"the job starts in a copy of {synced}, with sbatch it would start in {start}"
            conversion.add_note(line, "workdir", message)
    elif "workdir" in conversion.lines:
        if conversion.folder not in (None, conversion.fields.get("workdir")):
            conversion.env["SLURM_SUBMIT_DIR"] = conversion.folder
    elif conversion.folder is None:
        conversion.add_note(
            1,
            "workdir",
            "sbatch starts a job where it is called, and this one starts in your home: set `workdir` to change "
            "that",
        )
    else:
        conversion.fields["workdir"] = conversion.folder


def _find_body_start(lines: list[str]) -> int:
    """Return the index of the first line that is neither blank nor a comment."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            return index
    return len(lines)


def _assemble_job_file(conversion: SbatchConversion, command: str | None) -> dict[str, Any]:
    sbatch_options.count_named_nodes(conversion)
    resources = sbatch_resources.convert_resources(conversion)
    if conversion.extra:
        conversion.slurm["extra"] = [*conversion.extra.values()]
    file = {
        "name": conversion.fields.pop("name", None),
        **conversion.fields,
        "commands": [command] if command else [],
        "env": conversion.env,
        "resources": resources,
        "log_files": sbatch_options.find_log_paths(conversion),
        "placement": conversion.placement,
        "slurm": conversion.slurm,
    }
    ordered = [
        "name",
        "commands",
        "args",
        "script_path",
        "workdir",
        "env",
        "resources",
    ]
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


def _remove_invalid_fields(file: dict[str, Any], conversion: SbatchConversion) -> ImportedScript:
    """Return the result after removing invalid fields, with a note for each, until the remaining
    fields are a valid job file.
    """
    while True:
        try:
            JobFile.model_validate(file)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=False):
                _remove_field(file, problem["loc"], problem["msg"], conversion)
        else:
            return ImportedScript(
                file=file,
                notes=tuple(sorted(conversion.notes, key=lambda note: note.line)),
                lines={
                    name: line for name, line in conversion.lines.items() if line != COMMAND_LINE
                },
            )


def _remove_field(
    file: dict[str, Any], path: tuple[int | str, ...], message: str, conversion: SbatchConversion
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
            if field in _QUEUE:
                option = SbatchOption(conversion.lines[field], names[-1], None)
                refuse_option(option, f"is not a name that Slurm can have: {reason}")
            conversion.add_note(
                conversion.lines.get(field, 1), field, f"is not a valid value: {reason}"
            )
            break
        parent = child
    for name in [name for name, value in file.items() if value in ({}, [])]:
        del file[name]
