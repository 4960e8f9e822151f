"""Conversion of an error into a message on stderr and an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from aitne.cli import foreign_option_hints, output, server_package_check
from aitne.cli.errors import JobFailed
from aitne.client.errors import Ambiguous
from aitne.core.errors import AitneError, FieldProblem, InvalidInput, NotAllowed, NotFound

FAILED, INVALID, NOT_FOUND, INTERRUPTED = 1, 2, 3, 130


def get_exit_status(error: BaseException) -> int:
    """Return the exit status for an error: not found or not allowed, invalid input, or any other
    failure."""
    if isinstance(error, Ambiguous | NotFound | NotAllowed):
        return NOT_FOUND
    if isinstance(error, InvalidInput):
        return INVALID
    return FAILED


def report_error(error: Exception, *, as_json: bool) -> int:
    """Print an error on stderr, with ``as_json`` also on stdout as JSON; return the exit status."""
    if os.environ.get("AITNE_DEBUG"):
        traceback.print_exception(error)
    if _is_usage_error(error):
        return _report_usage_error(error, as_json=as_json)
    if not isinstance(error, AitneError):
        message = f"{type(error).__name__}: {error}"
        if (
            isinstance(error, ModuleNotFoundError)
            and not server_package_check.is_server_installed()
        ):
            message = server_package_check.CLIENT_ONLY
        elif isinstance(error, OSError):
            message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        else:
            message += " (this is a bug in aitne; AITNE_DEBUG=1 shows the traceback)"
        error = AitneError(message)
    _print_error(error)
    if as_json and not isinstance(error, JobFailed):
        output.print_json({"error": make_error_document(error)})
    return get_exit_status(error)


def _print_error(error: AitneError) -> None:
    problems = error.problems if isinstance(error, InvalidInput) else ()
    message = error.message if len(problems) < 2 else f"{len(problems)} fields are wrong."
    output.print_message(f"aitne: {output.to_single_line(message)}")
    if len(problems) > 1:  # the table shows only what is allowed
        for problem in problems:
            output.print_message(output.to_single_line(f"  {problem.field}: {problem.message}"))
    if problems:
        output.print_message("")
        rows = [
            (
                problem.field + _format_location(error, problem),
                "" if problem.value is None else output.to_single_line(problem.value, 60),
                problem.allowed or "",
            )
            for problem in problems
        ]
        columns = ("FIELD", "VALUE", "ALLOWED")
        # A column in which nothing stands is omitted.
        shown = [0, *(column for column in (1, 2) if any(row[column] for row in rows))]
        output.print_table(
            [columns[column] for column in shown],
            [[row[column] for column in shown] for row in rows],
            file=sys.stderr,
        )
    if isinstance(error, Ambiguous):
        output.print_table(
            ("ID", "NAME", "STATE"),
            [(job.id, output.to_single_line(job.name, 60), job.state) for job in error.candidates],
            file=sys.stderr,
        )


def _format_location(error: AitneError, problem: FieldProblem) -> str:
    line = _find_line(error, problem)
    return "" if line is None else f" ({error.source.name}:{line})"  # type: ignore[attr-defined]


def _find_line(error: AitneError, problem: FieldProblem) -> int | None:
    # A job file's error has its lines; a check of its type would load the YAML library.
    source = getattr(error, "source", None)
    line: int | None = None if source is None else source.find_line(problem.field)
    return line


def make_error_document(error: AitneError) -> dict[str, Any]:
    """Return an error as the dictionary that ``--json`` prints."""
    document: dict[str, Any] = {"code": error.code, "message": error.message}
    if isinstance(error, InvalidInput) and error.problems:
        document["problems"] = [
            {
                "field": problem.field,
                "line": _find_line(error, problem),
                "message": problem.message,
                "value": problem.value,
                "allowed": problem.allowed,
            }
            for problem in error.problems
        ]
    if isinstance(error, Ambiguous):
        document["candidates"] = [job.raw for job in error.candidates]
    return document


def _is_usage_error(error: Exception) -> bool:
    # Typer brings its own copy of Click in newer releases and uses the shared one in older ones:
    # the errors of both have only these attributes in common.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _report_usage_error(error: Any, *, as_json: bool) -> int:
    message = str(error.format_message())
    context = getattr(error, "ctx", None)
    path = "aitne" if context is None else context.command_path
    more = foreign_option_hints.find_hint(error)
    if more is not None:  # what Typer suggests from the letters alone would mislead
        message = message.partition(" (Possible options")[0]
    output.print_message(
        "\n".join(filter(None, [f"aitne: {message}", more, f"See `{path} --help`."]))
    )
    if as_json:
        output.print_json({"error": {"code": "usage", "message": message}})
    return INVALID
