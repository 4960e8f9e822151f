"""``import``: conversion of a batch script for sbatch to a job file."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated, Any

import typer
import typer.core

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Wait, Yes
from aitne.core.errors import InvalidInput

_CALL = "aitne.sbatch"
"""Key of the context under which the words after ``--`` are kept."""


class ImportCommand(typer.core.TyperCommand):
    """Command whose words after ``--`` are a command line of sbatch."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words after the first ``--`` in the context, and parse those before it."""
        own, call = list(args), None
        if "--" in own:
            at = own.index("--")
            own, call = own[:at], own[at + 1 :]
        ours, rest = self._split_words(own)
        options = [word for word in rest if word.startswith("-") and word != "-"]
        if options and _is_sbatch_option(options[0]):
            line = shlex.join(["aitne", "import", *ours, "--", *rest, *(call or ())])
            raise InvalidInput(f"{options[0]} is an option of sbatch, which follow --: `{line}`.")
        ctx.meta[_CALL] = call
        return super().parse_args(ctx, own)

    def _split_words(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Return the options of this command, with their values, and the other words."""
        flags = {
            name: bool(getattr(option, "is_flag", False)) or name in ("-h", "--help")
            for option in [*self.params]
            for name in option.opts
            if name.startswith("-")
        } | {"-h": True, "--help": True}
        ours: list[str] = []
        rest: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            name, equals, _ = word.partition("=")
            short = word[:2] if word[1:2] != "-" else ""
            if name not in flags and short not in flags:
                rest.append(word)
                continue
            ours.append(word)
            if flags.get(name) is False and not equals and left:
                ours.append(left.pop(0))
        return ours, rest


@command(
    "import",
    WORK,
    kind=ImportCommand,
    example="""
aitne import job.sbatch
aitne import job.sbatch -o job.aitne.yml
aitne import job.sbatch --submit --sync . --yes --wait
aitne import job.sbatch --strict > job.aitne.yml
aitne import --submit -- -N 2 --time=1:00:00 run.sh config.yml 4
""",
)
def import_(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCRIPT | -- [OPTIONS OF SBATCH] SCRIPT [ARGUMENT...]",
            help="The batch script, - is standard input; or a command line of sbatch after --.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here instead of printing it."),
    ] = None,
    submit: Annotated[
        bool, typer.Option("--submit", help="Submit it: show the plan and ask.")
    ] = False,
    sync: Annotated[
        str | None,
        typer.Option(
            "--sync",
            metavar="DIR",
            help="With --submit: upload the files of DIR and run the job in a copy of them.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail unless the job would run the same as with sbatch."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Convert a batch script to a job file.

    The #SBATCH lines become fields and the rest one command, which starts in the current folder, as
    with sbatch. All that follows -- is read as sbatch reads it: its options, the script, and the
    script's arguments. What sbatch refuses is refused; what cannot be converted is listed with the
    reason, and with --strict that is an error.
    """
    from aitne.cli import batch_script_conversion
    from aitne.core.jobs.job_file_rendering import render_job_file

    if sync is not None and not submit:
        raise InvalidInput("--sync uploads files for a job: pass --submit too.")
    call, script = _parse_call(words or [], context.meta[_CALL])
    text = call.wrapped_script or _read_script(script)
    conversion = batch_script_conversion.convert_script(text, script, call=call, synced=sync)
    # A platform that permits an option itself is asked when the job is submitted.
    serious = sum(
        note.changes_execution and not (submit and note.needs_permission)
        for note in conversion.notes
    )
    if strict and serious:
        output.print_message(
            f"Nothing was written: {serious} of these would make the job run differently."
        )
        return 1
    job_yaml = render_job_file(conversion.file)
    if to is not None:
        _write_job_file(to, job_yaml, force=force)
    if submit:
        from aitne.cli import job_submission
        from aitne.cli.job_file_reader import JobFileSource

        client = make_client(url, data_dir)
        if sync is not None:
            conversion.file["tree"] = job_submission.upload_tree(client, sync)
        source = JobFileSource(script, conversion.file, conversion.lines)
        try:
            job_submission.submit_job_file(
                client, source.content, yes=yes, wait=wait, as_json=as_json
            )
        except InvalidInput as error:
            raise source.with_lines(error) from error
    elif as_json:
        output.print_json(
            {"file": conversion.file, "notes": [note.model_dump() for note in conversion.notes]}
        )
    elif to is None:
        sys.stdout.write(job_yaml)
    else:
        output.print_message(f"Wrote {to}. `aitne plan {to}` shows the resulting job.")
    return 0


def _parse_call(words: list[str], after: list[str] | None) -> tuple[Any, str]:
    """Return the command line and environment of sbatch, and the path of the script."""
    from aitne.core.jobs.sbatch_call_parser import read_call

    if after is not None and words:
        raise InvalidInput(
            f"The script follows --: `aitne import -- {shlex.join([*after, *words])}`."
        )
    if after is None and len(words) != 1:
        line = shlex.join(words) if words else "SCRIPT ARGUMENTS"
        raise InvalidInput(
            "Name one batch script, such as job.sbatch; - is standard input. A script's arguments "
            f"follow it after --: `aitne import -- {line}`."
        )
    try:
        call = read_call(after or (), os.environ)
    except ValueError as error:
        raise InvalidInput(f"{error}.") from error
    return call, (words[0] if after is None else call.script or "-")


def _is_sbatch_option(word: str) -> bool:
    """Return whether a word of the command line is an option of sbatch."""
    from collections import deque

    from aitne.core.jobs.sbatch_option_parser import COMMAND_LINE, parse_options
    from aitne.core.jobs.sbatch_options import KNOWN

    try:
        # Whatever follows may be its value.
        next(parse_options(COMMAND_LINE, deque([word, "1"]), KNOWN))
    except ValueError:
        return False
    return True


def _read_script(path: str) -> str:
    from aitne.cli import batch_script_conversion

    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    return batch_script_conversion.decode_text(data, path)


def _write_job_file(path: str, text: str, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o666), "w") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already: pass --force to overwrite it.") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error
