"""``admin audit``: the log of what users and administrators did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.error_report import FAILED
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url
from aitne.cli.time_options import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from aitne.core.audit_chain import AuditChain


@group("admin audit")
def audit() -> None:
    """List, export and verify the audit log."""


Actor = Annotated[str | None, typer.Option("--actor", help="Only actions of this user.")]
Action = Annotated[
    str | None,
    typer.Option("--action", metavar="OPERATION", help="Only this operation, such as drain_node."),
]
Object = Annotated[
    str | None, typer.Option("--object", help="Only on this object, or on objects below it.")
]
Outcome = Annotated[
    str | None,
    typer.Option("--outcome", metavar="allowed|denied|failed", help="Only with this outcome."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only from then on: 2026-03-01 08:00.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only before then.")]


def _make_filter(
    actor: str | None,
    action: str | None,
    object_: str | None,
    outcome: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, str | datetime | None]:
    return {
        "actor": actor,
        "action": action,
        "object": object_,
        "outcome": outcome,
        "since": parse_time("--since", since),
        "until": parse_time("--until", until),
    }


@audit.command(
    "ls",
    epilog=examples("aitne admin audit ls --object gpu03\naitne admin audit ls --outcome denied"),
)
def audit_ls(
    actor: Actor = None,
    action: Action = None,
    object_: Object = None,
    outcome: Outcome = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List entries of the audit log, newest first."""
    filters = _make_filter(actor, action, object_, outcome, since, until)
    entries = list(make_client(url, data_dir).audit.list(limit=limit, **filters))
    return output.print_list(
        as_json,
        entries,
        ("ENTRY", "TIME", "WHO", "ACTION", "OBJECT", "OUTCOME", "FROM"),
        lambda entry: (
            entry.id,
            f"{entry.time.astimezone():%Y-%m-%d %H:%M:%S}",
            f"{entry.impersonator} as {entry.actor}" if entry.impersonator else entry.actor,
            entry.action,
            entry.object or "",
            entry.outcome,
            entry.address or "",
        ),
    )


@audit.command(
    "export",
    epilog=examples(
        "aitne admin audit export -o audit.jsonl\n"
        "aitne admin audit export --csv --since 2026-03-01 > march.csv"
    ),
)
def audit_export(
    to: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; unset: standard output.")
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="For a spreadsheet; only JSON lines can be verified.")
    ] = False,
    actor: Actor = None,
    action: Action = None,
    object_: Object = None,
    outcome: Outcome = None,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Write the log as a file, oldest first; complete, or only the entries that match the
    filter."""
    filters = _make_filter(actor, action, object_, outcome, since, until)
    chunks = make_client(url, data_dir).audit.export(as_csv=as_csv, **filters)
    if to is None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
        return 0
    unfinished = to.with_name(f"{to.name}.part")
    with unfinished.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
    unfinished.replace(to)
    output.print_message(f"{to}: {to.stat().st_size} bytes.")
    return 0


@audit.command(
    "verify",
    epilog=examples("aitne admin audit verify\naitne admin audit verify audit.jsonl"),
)
def audit_verify(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[EXPORT]", help="An export as JSON lines; unset: the platform's log."
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Check that no entry of the audit log was changed, removed or inserted.

    The hashes are computed here, not by the platform. Exit status 1 means that the check failed.
    """
    from aitne.core.audit_chain import AuditChain

    chain = AuditChain()
    if file is None:
        _extend_chain(
            chain, _split_lines(make_client(url, data_dir).audit.export()), filtered=False
        )
    else:
        with file.open(encoding="utf-8") as lines:
            _extend_chain(chain, lines, filtered=True)
    if as_json:
        broken = chain.broken
        output.print_json(
            {
                "intact": chain.is_intact,
                "whole": chain.is_intact,  # the old name of intact, until 0.3
                "entries": chain.entries,
                "first": chain.first,
                "last": chain.last,
                "last_hash": chain.last_hash,
                "gaps": chain.gaps,
                "broken_entry": None if broken is None else broken.entry,
                "problem": None if broken is None else broken.problem,
            }
        )
    else:
        output.print_message(_describe_chain(chain))
    return 0 if chain.broken is None else FAILED


def _split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in whole)
    if rest:
        yield rest.decode()


def _extend_chain(chain: AuditChain, lines: Iterable[str], *, filtered: bool) -> None:
    from aitne.core.audit_chain import ChainBreak, parse_entry

    for number, line in enumerate(lines, 1):
        try:
            entry = parse_entry(line)
        except ValueError:
            chain.broken = ChainBreak(
                number, "This line is not an entry of an export in JSON lines."
            )
            return
        if not chain.check_entries([entry], filtered=filtered):
            return


def _describe_chain(chain: AuditChain) -> str:
    if chain.broken is not None:
        return (
            f"Entry {chain.broken.entry} is wrong. {chain.broken.problem} "
            f"The {chain.entries} before it are in order."
        )
    if not chain.entries:
        return "There are no entries."
    end = f"Entry {chain.last} has the hash {chain.last_hash}."
    if chain.is_intact:
        return f"All {chain.entries} entries are in order. {end}"
    return (
        f"Each of these {chain.entries} entries is unchanged; entries between or before them "
        f"are missing. {end}"
    )
