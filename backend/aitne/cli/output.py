"""Output of the command line: results on stdout, messages on stderr."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TextIO, TypeVar

    class Raw(Protocol):
        """Record of the client that has the JSON object which the platform sent."""

        @property
        def raw(self) -> Any:
            """Return the JSON object that the platform sent."""
            ...

    Listed = TypeVar("Listed", bound=Raw)

GOOD = frozenset({"COMPLETED", "READY", "RUNNING", "idle", "mixed", "ready", "done"})
BAD = frozenset(
    {
        *("FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "NODE_FAILED", "LOST", "PREEMPTED"),
        *("down", "drained", "degraded", "failed", "stopped"),
    }
)
UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def print_line(text: str) -> None:
    """Print one line of a result on stdout."""
    sys.stdout.write(text + "\n")


def print_json(document: object) -> None:
    """Print a result as JSON on stdout. A command with ``--json`` prints exactly one document."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_message(text: str) -> None:
    """Print a message on stderr: progress, advice, a question."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def print_list(
    as_json: bool,
    records: Sequence[Listed],
    columns: Sequence[str],
    make_row: Callable[[Listed], Sequence[object]],
) -> int:
    """Print a list and return the exit status 0. With ``as_json`` all fields are printed as JSON,
    otherwise a table with ``columns``, whose cells ``make_row`` returns for each record."""
    if as_json:
        print_json([record.raw for record in records])
    else:
        print_table(columns, [make_row(record) for record in records])
    return 0


def print_done(as_json: bool, document: object, sentence: str) -> int:
    """Print the result of a completed action, ``document`` as JSON or else ``sentence``, and return
    the exit status 0."""
    if as_json:
        print_json(document)
    else:
        print_message(sentence)
    return 0


def to_single_line(text: object, max_length: int | None = None) -> str:
    """Return text as one line in which control characters, which could move the cursor or set
    colours, are escaped.

    A text of more than ``max_length`` characters is cut and ends in an ellipsis; None: no limit.
    """
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text)
    )
    return (
        shown if max_length is None or len(shown) <= max_length else shown[: max_length - 1] + "…"
    )


def format_duration(seconds: float) -> str:
    """Return a duration as text in at most two units: ``4000`` seconds are ``1h 6m``."""
    rest, parts = max(0, int(seconds)), list[str]()
    for size, unit in UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def format_time(time: datetime | None) -> str:
    """Return the time as text in the local time zone, such as ``2025-03-01 14:05``; an empty text
    for None.
    """
    return "" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M}"


def format_elapsed(start: datetime | None, end: datetime | None = None) -> str:
    """Return the time between two moments as text, by default until now; empty if ``start`` is
    None."""
    if start is None:
        return ""
    return format_duration(((end or datetime.now(timezone.utc)) - start).total_seconds())  # noqa: UP017


def format_memory(amount_bytes: int | None) -> str:
    """Return a number of bytes with a binary unit: ``17179869184`` is ``16 GiB``; empty for
    None."""
    from aitne.core.byte_size_format import describe_bytes

    return "" if amount_bytes is None else describe_bytes(amount_bytes)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, file: TextIO | None = None
) -> None:
    """Print a table: drawn by Rich on a terminal, otherwise as plain text that is not cut."""
    out = file or sys.stdout
    cells = [[to_single_line(cell) for cell in row] for row in rows]
    if out.isatty():
        _print_rich_table(columns, cells, out)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells) if any(columns) else cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.write(line.rstrip() + "\n")


def _print_rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for number, column in enumerate(columns):
        drawn.add_column(column, overflow="fold", no_wrap=number == 0)
    for row in cells:
        drawn.add_row(*(Text(cell, style=_get_cell_style(cell)) for cell in row))
    Console(file=out, highlight=False).print(drawn)


def _get_cell_style(cell: str) -> str:
    return "green" if cell in GOOD else "red" if cell in BAD else ""


def print_facts(pairs: Sequence[tuple[str, Any]], *, file: TextIO | None = None) -> None:
    """Print names and values, one pair a line; pairs without a value are omitted."""
    shown = [(name, value) for name, value in pairs if value not in (None, "")]
    print_table(("", ""), shown, file=file or sys.stdout)


def require_confirmation(question: str) -> None:
    """Ask a question on the terminal, and return only if the answer is yes.

    Raises:
        InvalidInput: there is no terminal.
        Declined: the answer was no.
    """
    if not sys.stdin.isatty():
        from aitne.core.errors import InvalidInput

        raise InvalidInput(f"{question} There is no terminal for the question: pass --yes.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        from aitne.cli.errors import Declined

        raise Declined("Nothing was done.")
