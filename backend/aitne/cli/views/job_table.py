"""``aitne ps``: table of running and pending jobs."""

from __future__ import annotations

import sys

from aitne.cli import output
from aitne.cli.job_lookup import make_client
from aitne.client.record_base import TERMINAL
from aitne.client.records import Job, ResourcesRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENDED_SHOWN = 10


def ps(
    *,
    url: str | None = None,
    data_dir: str | None = None,
    as_json: bool = False,
    everything: bool = False,
    owner: str | None = None,
    project: str | None = None,
    kind: str | None = None,
    states: list[str] | None = None,
    search: str | None = None,
    tasks: bool = False,
    more: dict[str, Any] | None = None,
    sort: str | None = None,
    ascending: bool = False,
    limit: int | None = None,
) -> int:
    """List jobs, newest first: unfinished ones and the last ten that ended, or all with
    ``everything``.

    The other arguments are filters of ``client.jobs.list``. Return the exit status.
    """
    jobs = make_client(url, data_dir).jobs

    def list_jobs(states: list[str], limit: int | None = limit, *, live: bool = False) -> list[Job]:
        return list(
            jobs.list(
                states=states,
                live=live,
                type=kind,
                owner=owner,
                project=project,
                search=search,
                top_level=not tasks,
                limit=limit,
                sort=sort,
                ascending=ascending,
                **(more or {}),
            )
        )

    if everything or states or sort or limit:
        selected = list_jobs([state.upper() for state in states or ()])
    else:
        selected = list_jobs([], live=True) + list_jobs(sorted(TERMINAL), ENDED_SHOWN)
        selected.sort(key=lambda job: job.created_at, reverse=True)
    if as_json:
        output.print_json([job.raw for job in selected])
    elif selected:
        print_jobs(selected)
    else:
        output.print_message(
            "No jobs are running or waiting." if not everything else "There are no jobs."
        )
    return 0


def print_jobs(jobs: list[Job]) -> None:
    """Print the jobs as a table, one line for each job."""
    columns = ("ID", "NAME", "TYPE", "STATE", "TIME", "OWNER", "RESOURCES", "NODES", "")
    output.print_table(columns, [_make_row(job, wide=not sys.stdout.isatty()) for job in jobs])


def _make_row(job: Job, *, wide: bool) -> tuple[str, ...]:
    start = job.started_at or job.allocated_at or job.created_at
    what = f"{job.type} array" if job.is_array else job.type
    if job.origin == "outside":
        what = f"{what}, outside"
    note = job.message if not job.ok else None
    return (
        job.short_id,
        output.to_single_line(job.name, None if wide else 32),
        what,
        job.state,
        output.format_elapsed(start, job.ended_at),
        job.owner,
        format_resources(job.resources),
        ",".join(job.nodes),
        output.to_single_line(note or "", None if wide else 60),
    )


def _describe_memory(request: ResourcesRecord) -> list[str]:
    """Return the memory of a request; empty if it is unknown."""
    if request.memory_request == "all":
        return ["all memory"]
    if not request.memory_bytes:
        return []
    by_default = " by default" if request.memory_request == "default" else ""
    return [f"{output.format_memory(request.memory_bytes)}{by_default}"]


def format_resources(request: ResourcesRecord) -> str:
    """Return requested resources as text, such as ``2 × 4 cpu 16 GiB gpu a100:2``."""
    tasks = [] if request.tasks_per_node is None else [f"{request.tasks_per_node} tasks"]
    parts = [*tasks, f"{request.cpu} cpu", *_describe_memory(request)]
    if request.gpu.count:
        parts.append(f"gpu {request.gpu}")
    parts += [f"{name}:{count}" for name, count in request.gres.items()]
    nodes = f"{request.nodes} × " if request.nodes > 1 else ""
    return nodes + " ".join(parts)
