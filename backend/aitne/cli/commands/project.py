"""``project``: commands for members and managers of projects. ``admin`` has those for
administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.limits_command import make_limits_command
from aitne.cli.shared_options import (
    DataDir,
    EndDay,
    Json,
    MemberArgument,
    ProjectArgument,
    Reason,
    Url,
    Yes,
)
from aitne.cli.time_options import to_utc
from aitne.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client.project_records import BalanceRecord, BudgetShareRecord, ProjectRecord


@group("project", WORK)
def projects() -> None:
    """Request, manage and join projects."""


Role = Annotated[str, typer.Option("--role", metavar="member|manager", help="Role in the project.")]
LATER = "Slurm has it after `aitne admin sync`."


@projects.command("ls", epilog=examples("aitne project ls\naitne project ls --state requested"))
def ls(
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="requested, active, expired or closed."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List your projects; administrators see all."""
    projects = make_client(url, data_dir).projects.list(state=state)
    return output.print_list(
        as_json,
        projects,
        ("NAME", "STATE", "MEMBERS", "MANAGERS", "ENDS", "TITLE"),
        lambda project: (
            project.name,
            project.state,
            len(project.members),
            ", ".join(project.managers),
            _format_end(project),
            project.title,
        ),
    )


@projects.command("show", epilog=examples("aitne project show vision"))
def show(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show a project: members, state, end, and hours used and left."""
    client = make_client(url, data_dir)
    project, balance = client.projects.get(name), client.projects.balance(name)
    if as_json:
        output.print_json({**project.raw, "balance": balance.raw})
        return 0
    output.print_facts(
        [
            ("project", project.name),
            ("title", project.title),
            ("about", project.description),
            ("state", project.state),
            ("note", project.note),
            ("managers", ", ".join(project.managers)),
            ("members", ", ".join(project.members) or "none"),
            ("ends", _format_end(project)),
            ("requested", project.extension and f"more time, until {project.extension.until:%F}"),
            ("GPU-hours", _describe_share(balance.gpu_hours)),
            ("CPU-hours", _describe_share(balance.cpu_hours)),
            ("counted", _format_counted_period(balance)),
        ]
    )
    return 0


@projects.command(
    "create",
    epilog=examples("aitne project create vision --title 'Computer vision' --reason 'A new grant'"),
)
def create(
    name: ProjectArgument,
    title: Annotated[str, typer.Option("--title", help="Its title.")] = "",
    about: Annotated[str, typer.Option("--about", help="Description.")] = "",
    reason: Reason = "",
    until: EndDay = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Request a project, or create it where the site permits all users to. You become its
    manager."""
    made = make_client(url, data_dir).projects.create(
        name,
        title=title,
        description=about,
        reason=reason or None,
        expires_at=None if until is None else to_utc(until),
    )
    if as_json:
        output.print_json(made.raw)
    elif made.state == "requested":
        output.print_message(
            f"{made.name}: requested. It accepts jobs once an administrator approves it."
        )
    else:
        output.print_message(
            f"{made.name}: created. Invite users: aitne project invite {made.name}"
        )
    return 0


@projects.command("members", epilog=examples("aitne project members vision"))
def members(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """List the members of a project."""
    project_members = make_client(url, data_dir).projects.members(name)
    return output.print_list(
        as_json,
        project_members,
        ("USER", "ROLE", "IN SLURM"),
        lambda member: (
            member.user,
            member.role,
            "after the next sync" if member.in_slurm is False else "",
        ),
    )


@projects.command("add", epilog=examples("aitne project add vision ada --role manager"))
def add(
    name: ProjectArgument,
    user: MemberArgument,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="member|manager", help="Unset: member, or unchanged."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Add a member, or change a member's role."""
    made = make_client(url, data_dir).projects.put_member(name, user, role=role)
    later = f" {LATER}" if made.in_slurm is False else ""
    return output.print_done(as_json, made.raw, f"{user}: {made.role} of {name}.{later}")


projects.command(
    "limits",
    help="Show the limits of a project or a member, or set lower ones than granted.\n\n"
    "Others are not changed; `none` is no limit. The local scheduler applies them at once, "
    "Slurm after `aitne admin sync`.",
    epilog=examples(
        "aitne project limits vision\n"
        "aitne project limits vision --max-gpus 4\n"
        "aitne project limits vision --user ada --max-gpus h200=1 --max-wall 12h"
    ),
)(make_limits_command(granted=False))


@projects.command(
    "retention",
    epilog=examples(
        "aitne project retention vision\naitne project retention vision --jobs 30d --failed 90d"
    ),
)
def retention(
    name: ProjectArgument,
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="TIME", help="Such as 30d; `forever`; `site`: as the site."),
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="TIME", help="The same for failed jobs.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show or set how long a project keeps its ended jobs, within what the site permits.

    After that time they are deleted with their logs, metrics and folders. Their usage is still
    counted.
    """
    client = make_client(url, data_dir)
    kept = _get_own_retention(client.projects.get(name))
    given = {"keep_jobs": jobs, "keep_failed_jobs": failed}
    changes = {field: text for field, text in given.items() if text is not None}
    if changes:
        wish = kept | {field: None if text == "site" else text for field, text in changes.items()}
        kept = _get_own_retention(client.projects.set_retention(name, **wish))
    if as_json:
        output.print_json(kept)
        return 0
    output.print_facts(
        [
            ("Ended jobs", _format_retention(kept["keep_jobs"])),
            ("Failed jobs", _format_retention(kept["keep_failed_jobs"])),
        ]
    )
    return 0


def _get_own_retention(project: ProjectRecord) -> dict[str, int | str | None]:
    own = project.retention or {}
    return {name: own.get(name) for name in ("keep_jobs", "keep_failed_jobs")}


def _format_retention(keep: int | str | None) -> str:
    if keep is None:
        return "as the site keeps them"
    return keep if isinstance(keep, str) else format_duration(keep)


@projects.command("remove", epilog=examples("aitne project remove vision ada --yes"))
def remove(
    name: ProjectArgument,
    user: MemberArgument,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove a member, or leave a project. Jobs continue; the member's own limits are deleted."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Remove {user} from {name}?")
    client.projects.remove_member(name, user)
    return output.print_done(
        as_json, {"project": name, "user": user}, f"{user}: no longer a member of {name}."
    )


@projects.command(
    "invite",
    epilog=examples("aitne project invite vision\naitne project invite vision --uses 20 --for 30d"),
)
def invite(
    name: ProjectArgument,
    role: Role = "member",
    uses: Annotated[int, typer.Option("--uses", help="Number of users who can join.")] = 1,
    lifetime: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Validity, such as 7d.")
    ] = "7d",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create an invitation link. It is shown only once."""
    made = make_client(url, data_dir).projects.invite(
        name, role=role, max_uses=uses, lifetime=lifetime
    )
    if as_json:
        output.print_json(made.raw)
    else:
        output.print_line(made.url)
        ends = output.format_time(made.invitation.expires_at)
        output.print_message(
            f"Lets {uses} join {name} as {role}, until {ends}. Id {made.invitation.id}."
        )
    return 0


@projects.command("invitations", epilog=examples("aitne project invitations vision"))
def invitations(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """List a project's invitations, without their links."""
    project_invitations = make_client(url, data_dir).projects.invitations(name)
    return output.print_list(
        as_json,
        project_invitations,
        ("ID", "ROLE", "BY", "JOINED", "UNTIL"),
        lambda invitation: (
            *(
                invitation.id,
                invitation.role,
                invitation.created_by,
                f"{invitation.uses} of {invitation.max_uses}",
            ),
            "revoked" if invitation.revoked_at else output.format_time(invitation.expires_at),
        ),
    )


@projects.command("revoke", epilog=examples("aitne project revoke vision 5f2d1c0b9a8e7d6c"))
def revoke(
    name: ProjectArgument,
    invitation: Annotated[str, typer.Argument(metavar="ID", help="From `project invitations`.")],
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Revoke an invitation. Users who have joined remain members."""
    make_client(url, data_dir).projects.revoke_invitation(name, invitation)
    return output.print_done(
        as_json, {"project": name, "id": invitation}, "The link is no longer valid."
    )


@projects.command(
    "join", epilog=examples("aitne project join https://aitne.example.org/invite#TOKEN")
)
def join(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link, or the part after its #.")],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Join a project by an invitation; first shows the project and the inviter."""
    client = make_client(url, data_dir)
    preview = client.projects.preview_invitation(link)
    if not as_json:
        output.print_facts(
            [
                (
                    "project",
                    f"{preview.project} ({preview.title})" if preview.title else preview.project,
                ),
                ("about", preview.description),
                ("invited by", preview.inviter_name),
                ("as", preview.role),
            ]
        )
    if not yes:
        output.require_confirmation(f"Join {preview.project}?")
    made = client.projects.join(link)
    return output.print_done(as_json, made.raw, f"You are a {made.role} of {made.project}.")


@projects.command(
    "close", epilog=examples("aitne project close vision --reason 'The grant is over'")
)
def close(
    name: ProjectArgument,
    reason: Reason = "",
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Close a project for new jobs. Pending and running jobs continue; `reopen` undoes it."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Close {name}? It accepts no new jobs until it is reopened.")
    made = client.projects.close(name, reason)
    return output.print_done(
        as_json, made.raw, f"{name}: closed. Undo: aitne project reopen {name}"
    )


@projects.command("reopen", epilog=examples("aitne project reopen vision"))
def reopen(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Reopen a closed project for new jobs."""
    made = make_client(url, data_dir).projects.reopen(name)
    return output.print_done(as_json, made.raw, f"{name}: {made.state}.")


@projects.command(
    "extend", epilog=examples("aitne project extend vision --until 2027-06-30 --reason 'A paper'")
)
def extend(
    name: ProjectArgument,
    until: Annotated[
        datetime,
        typer.Option(
            "--until", formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="The requested end."
        ),
    ],
    reason: Reason = "",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Request a later end from an administrator."""
    made = make_client(url, data_dir).projects.request_extension(name, to_utc(until), reason)
    return output.print_done(
        as_json, made.raw, f"{name}: requested. An administrator decides on it."
    )


@projects.command("waiting", epilog=examples("aitne project waiting vision"))
def waiting(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show the pending jobs of a project with owner and reason."""
    jobs = list(make_client(url, data_dir).projects.waiting(name))
    if as_json:
        output.print_json([job.raw for job in jobs])
    elif not jobs:
        output.print_message(f"No jobs of {name} are waiting.")
    else:
        rows = [
            (
                *(job.id[:8], job.name, job.owner, job.resources),
                *(
                    output.format_elapsed(job.pending_since),
                    output.format_time(job.expected_start_at),
                ),
                job.reason or "",
            )
            for job in jobs
        ]
        output.print_table(("ID", "NAME", "OWNER", "ASKS FOR", "SINCE", "MAY START", "WHY"), rows)
    return 0


def _format_end(project: ProjectRecord) -> str:
    return "" if project.expires_at is None else f"{project.expires_at:%Y-%m-%d}"


def _describe_share(share: BudgetShareRecord) -> str:
    if share.used is None:
        return "" if share.budget is None else f"budget {share.budget}, use not known yet"
    remaining = "" if share.budget is None else f" of {share.budget}, {share.remaining:g} left"
    return f"{share.used:g} used{remaining}"


def _format_counted_period(balance: BalanceRecord) -> str:
    if balance.as_of is None:
        return ""
    return f"since {balance.since:%Y-%m-%d}, until {balance.as_of:%Y-%m-%d %H:%M} UTC"
