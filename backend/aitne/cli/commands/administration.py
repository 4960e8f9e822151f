"""``admin audit``, ``admin maintenance``, ``admin health`` and ``admin settings``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.failure import FAILED
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app
from aitne.cli.times import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from aitne.client.admin_records import MaintenanceRecord
    from aitne.core.audit import AuditChain

audit = group_app("The audit log: list, export, verify.")
maintenance = group_app("Maintenance: new jobs are held, running jobs continue.")

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


def _where(
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
        "since": moment_of("--since", since),
        "until": moment_of("--until", until),
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
    most: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List entries of the audit log, newest first."""
    filters = _where(actor, action, object_, outcome, since, until)
    entries = list(connect(url, data_dir).audit.list(most=most, **filters))
    return output.listing(
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
    filters = _where(actor, action, object_, outcome, since, until)
    chunks = connect(url, data_dir).audit.export(as_csv=as_csv, **filters)
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
    output.say(f"{to}: {to.stat().st_size} bytes.")
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
    """Check that no entry was changed, removed or inserted.

    The hashes are computed here, not by the platform. Exit status 1 means that the check failed.
    """
    from aitne.core.audit import AuditChain

    chain = AuditChain()
    if file is None:
        _follow(chain, _lines(connect(url, data_dir).audit.export()), filtered=False)
    else:
        with file.open(encoding="utf-8") as lines:
            _follow(chain, lines, filtered=True)
    if as_json:
        broken = chain.broken
        output.answer_json(
            {
                "intact": chain.whole,
                "entries": chain.entries,
                "first": chain.first,
                "last": chain.last,
                "last_hash": chain.last_hash,
                "gaps": chain.gaps,
                "broken_entry": None if broken is None else broken.entry,
                "problem": None if broken is None else broken.problem,
                "whole": chain.whole,  # the old name of intact, until 0.3
            }
        )
    else:
        output.say(_verdict(chain))
    return 0 if chain.broken is None else FAILED


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in whole)
    if rest:
        yield rest.decode()


def _follow(chain: AuditChain, lines: Iterable[str], *, filtered: bool) -> None:
    from aitne.core.audit import ChainBreak, read_line

    for number, line in enumerate(lines, 1):
        try:
            entry = read_line(line)
        except ValueError:
            chain.broken = ChainBreak(
                number, "This line is not an entry of an export in JSON lines."
            )
            return
        if not chain.follow([entry], filtered=filtered):
            return


def _verdict(chain: AuditChain) -> str:
    if chain.broken is not None:
        return (
            f"Entry {chain.broken.entry} is wrong. {chain.broken.problem} "
            f"The {chain.entries} before it are in order."
        )
    if not chain.entries:
        return "There are no entries."
    end = f"Entry {chain.last} has the hash {chain.last_hash}."
    if chain.whole:
        return f"All {chain.entries} entries are in order. {end}"
    return (
        f"Each of these {chain.entries} entries is unchanged; entries between or before them "
        f"are missing. {end}"
    )


@maintenance.command(
    "on",
    epilog=examples(
        "aitne admin maintenance on --message 'New switches' --until 4h\n"
        "aitne admin maintenance on --from '2026-03-01 08:00' --until '2026-03-01 12:00'"
    ),
)
def maintenance_on(
    message: Annotated[str, typer.Option("--message", help="Reason, shown to all users.")] = "",
    starts: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="A time, or 2h from now; unset: now."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="A time, or 2h from now; unset: no end."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Hold new work, now or from a later time. New jobs are accepted and start afterwards."""
    client = connect(url, data_dir)
    starts_at, ends_at = moment_of("--from", starts), moment_of("--until", until)
    if not yes:
        output.facts(
            [
                ("From", output.moment(starts_at) or "now"),
                ("Until", output.moment(ends_at) or "`aitne admin maintenance off`"),
                ("Message", message),
            ]
        )
        output.confirm("No new jobs start in this period. Continue?")
    return _answer(
        client.maintenance.on(message, starts_at=starts_at, ends_at=ends_at), as_json=as_json
    )


@maintenance.command("off", epilog=examples("aitne admin maintenance off --yes"))
def maintenance_off(
    yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """End the maintenance, or cancel a scheduled one."""
    client = connect(url, data_dir)
    if not yes:
        output.say(_says(client.maintenance.status()))
        output.confirm("End it?")
    return _answer(client.maintenance.off(), as_json=as_json)


@maintenance.command("status", epilog=examples("aitne admin maintenance status --json"))
def maintenance_status(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show whether maintenance is on or scheduled."""
    return _answer(connect(url, data_dir).maintenance.status(), as_json=as_json)


def _answer(status: MaintenanceRecord, *, as_json: bool) -> int:
    if as_json:
        output.answer_json(status.raw)
    else:
        output.answer(_says(status))
    return 0


def _says(status: MaintenanceRecord) -> str:
    reason = f" {status.message}" if status.message else ""
    until = output.moment(status.ends_at) or "it is turned off"
    if status.phase == "on":
        return f"Maintenance since {output.moment(status.starts_at)}, until {until}.{reason}"
    if status.phase == "scheduled":
        return f"Maintenance from {output.moment(status.starts_at)}, until {until}.{reason}"
    return "No maintenance: new jobs start."


def health(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the state of every part of the platform. Exit status 1 means that one is down."""
    report = connect(url, data_dir).admin.health()
    if as_json:
        output.answer_json(report.raw)
    else:
        output.table(
            ("PART", "STATE", "SINCE", "WHAT IT SAYS"),
            [
                (part.name, part.state, f"{output.since(part.since)} ago", part.message)
                for part in report.parts
            ],
        )
        for part in report.parts:
            if part.advice:
                output.say(f"{part.name}: {output.plain(part.advice)}")
    return FAILED if report.state == "down" else 0


def settings(
    everything: Annotated[bool, typer.Option("--all", help="Also default values.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the settings and the source of each value. Secrets are masked."""
    all_settings = connect(url, data_dir).admin.settings()
    shown = [setting for setting in all_settings if everything or setting.source != "default"]
    return output.listing(
        as_json,
        shown,
        ("SETTING", "VALUE", "FROM"),
        lambda setting: (
            setting.name,
            "" if setting.value is None else setting.value,
            setting.where or setting.source.replace("_", " "),
        ),
    )
