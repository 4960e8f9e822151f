"""Completion of names by the shell: jobs, sessions, templates, projects.

If the platform does not answer within a second, nothing is suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from aitne.client import Client

WITHIN_S = 1.0
MOST_JOBS = 100
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Pattern of a name that needs no quoting in a shell."""


def complete_jobs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return names and ids of the user's newest jobs, each with a description."""
    return _query_platform(ctx, lambda client: _list_job_candidates(client, incomplete))


def complete_unfinished_jobs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return names and ids of the user's jobs that have not ended."""
    from aitne.client.record_base import LIVE

    return _query_platform(
        ctx, lambda client: _list_job_candidates(client, incomplete, states=LIVE)
    )


def complete_sessions(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return names and ids of the user's newest sessions."""
    return _query_platform(
        ctx, lambda client: _list_job_candidates(client, incomplete, type="session")
    )


def complete_templates(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the names of the templates."""
    return _query_platform(
        ctx, lambda client: [(each.name, each.title) for each in client.templates.list()]
    )


def complete_projects(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the names of the user's projects."""
    return _query_platform(ctx, lambda client: [(name, "") for name in client.me().projects])


def _list_job_candidates(
    client: Client, incomplete: str, **filters: Any
) -> Iterable[tuple[str, str]]:
    """Yield candidates for the user's newest jobs, each with its state.

    These are job names without duplicates, and job ids if a name needs quoting or ``incomplete`` is
    the beginning of an id.
    """
    named: set[str] = set()
    owner = client.me().user.name
    for job in client.jobs.list(owner=owner, top_level=True, limit=MOST_JOBS, **filters):
        single = _WORD.fullmatch(job.name) is not None
        if single and job.name not in named:
            named.add(job.name)
            yield job.name, job.state
        if not single or (incomplete and job.id.startswith(incomplete)):
            yield job.short_id, f"{job.name[:40]} {job.state}"


def _query_platform(
    ctx: typer.Context, query: Callable[[Client], Iterable[tuple[str, str]]]
) -> list[tuple[str, str]]:
    def get_option(option: str) -> Any:
        return ctx.params.get(option) or ctx.find_root().params.get(option)

    def run() -> None:
        try:
            from aitne.client import Client

            found.extend(query(Client(url=get_option("url"), data_dir=get_option("data_dir"))))
        except Exception:  # noqa: BLE001 - an error would appear in the middle of the command line
            found.clear()

    found: list[tuple[str, str]] = []
    # A thread, because a name server could keep the shell waiting for longer than any socket.
    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    return [*found]
