"""``admin project``: projects, their life cycle, limits and budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.limits_command import format_sync_note, make_limits_command, print_limits
from aitne.cli.shared_options import DataDir, EndDay, Json, ProjectArgument, Reason, Url, Yes
from aitne.cli.time_options import to_utc


@group("admin project")
def projects() -> None:
    """List, create, limit, approve and decline projects."""


GpuHours = Annotated[int | None, typer.Option("--gpu-hours", metavar="N", help="GPU-hours.")]
CpuHours = Annotated[int | None, typer.Option("--cpu-hours", metavar="N", help="CPU-hours.")]
Total = Annotated[bool, typer.Option("--total", help="In total, not for each month.")]


@projects.command(
    "approve", epilog=examples("aitne admin project approve vision --gpu-hours 500 --yes")
)
def approve(
    name: ProjectArgument,
    until: EndDay = None,
    gpu_hours: GpuHours = None,
    cpu_hours: CpuHours = None,
    total: Total = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Approve a requested project, after showing the request."""
    client = make_client(url, data_dir)
    wish = client.projects.get(name)
    if not as_json:
        output.print_facts(
            [
                ("project", wish.name),
                ("title", wish.title),
                ("about", wish.description),
                ("requested by", wish.requested_by),
                ("reason", wish.note),
                ("ends", f"{wish.expires_at:%Y-%m-%d}" if wish.expires_at else None),
            ]
        )
    if not yes:
        output.require_confirmation(f"Approve {name}?")
    new_budget = _make_budget(gpu_hours, cpu_hours, total=total)
    made = client.projects.approve(
        name, expires_at=None if until is None else to_utc(until), budget=new_budget
    )
    note = "" if as_json else format_sync_note(client)
    return output.print_done(as_json, made.raw, f"{name}: active.{note}")


@projects.command(
    "decline", epilog=examples("aitne admin project decline vision --reason 'No grant' --yes")
)
def decline(
    name: ProjectArgument,
    reason: Reason,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Decline a requested project, or a requested later end."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Decline the request of {name}?")
    made = client.projects.decline(name, reason)
    return output.print_done(as_json, made.raw, f"{name}: {made.state}.")


@projects.command(
    "end",
    epilog=examples(
        "aitne admin project end vision --until 2027-06-30\naitne admin project end vision --never"
    ),
)
def end(
    name: ProjectArgument,
    until: Annotated[
        datetime | None,
        typer.Option(
            "--until", formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="Its end, in UTC."
        ),
    ] = None,
    never: Annotated[bool, typer.Option("--never", help="No end.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Set the end of a project. An expired project becomes active again."""
    if (until is None) is not never:
        from aitne.core.errors import InvalidInput

        raise InvalidInput.field("--until", "give it or --never, not both")
    made = make_client(url, data_dir).projects.set_end(
        name, None if until is None else to_utc(until)
    )
    ends = f"{made.expires_at:%Y-%m-%d}" if made.expires_at else "never"
    return output.print_done(as_json, made.raw, f"{name}: {made.state}, ends {ends}.")


@projects.command(
    "budget",
    epilog=examples(
        "aitne admin project budget vision --gpu-hours 500\n"
        "aitne admin project budget vision --gpu-hours 20000 --total\n"
        "aitne admin project budget vision --none"
    ),
)
def budget(
    name: ProjectArgument,
    gpu_hours: GpuHours = None,
    cpu_hours: CpuHours = None,
    total: Total = False,
    none: Annotated[bool, typer.Option("--none", help="No budget.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Set the hours that a project may use, each month or in total; new jobs need remaining
    hours."""
    new_budget = _make_budget(gpu_hours, cpu_hours, total=total)
    if (new_budget is None) is not none:
        from aitne.core.errors import InvalidInput

        raise InvalidInput.field("--gpu-hours", "give it, --cpu-hours, or --none alone")
    made = make_client(url, data_dir).projects.set_budget(name, new_budget or {})
    return output.print_done(as_json, made.raw, f"{name}: {'no' if none else 'new'} budget.")


projects.command(
    "limits",
    help="Show limits, or change those that are given; `none` is no limit.\n\n"
    "The local scheduler applies them at once, Slurm after `aitne admin sync`.",
    epilog=examples(
        "aitne admin project limits vision --max-gpus 8 --max-gpus h200=4 --max-wall 2d\n"
        "aitne admin project limits vision --user ada --max-gpus 2\n"
        "aitne admin project limits vision --max-gpus none"
    ),
)(make_limits_command(granted=True))


@projects.command("ls")
def project_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List all projects with their members."""
    all_projects = make_client(url, data_dir).projects.list()
    return output.print_list(
        as_json,
        all_projects,
        ("NAME", "STATE", "MEMBERS", "TITLE"),
        lambda project: (project.name, project.state, len(project.members), project.title),
    )


@projects.command(
    "create", epilog=examples("aitne admin project create vision --title 'Vision' --manager ada")
)
def project_create(
    name: ProjectArgument,
    title: Annotated[str, typer.Option("--title", help="Title.")] = "",
    manager: Annotated[
        str | None,
        typer.Option("--manager", metavar="USER", help="Its first member and manager."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create a project; on Slurm, its account is created by `aitne admin sync`."""
    made = make_client(url, data_dir).projects.create(name, title=title, manager=manager)
    return output.print_done(
        as_json,
        made.raw,
        f"{made.name}: created. Add users: aitne admin member add {made.name} USER",
    )


@projects.command("show")
def project_show(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show a project: members, limits and their use."""
    client = make_client(url, data_dir)
    project, limits = client.projects.get(name), client.projects.limits(name)
    if as_json:
        output.print_json({**project.raw, "limits": limits.raw})
        return 0
    output.print_facts(
        [
            ("project", project.name),
            ("title", project.title),
            ("members", ", ".join(project.members) or "none"),
        ]
    )
    print_limits(limits)
    return 0


def _make_budget(
    gpu_hours: int | None, cpu_hours: int | None, *, total: bool
) -> dict[str, Any] | None:
    if gpu_hours is None and cpu_hours is None:
        return None
    period = "total" if total else "month"
    return {"gpu_hours": gpu_hours, "cpu_hours": cpu_hours, "period": period}
