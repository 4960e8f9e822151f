"""``admin member``: the members of projects."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.limits_command import describe_limit, format_limit, format_sync_note, list_limits
from aitne.cli.shared_options import DataDir, Json, MemberArgument, ProjectArgument, Url, Yes


@group("admin member")
def members() -> None:
    """List, add and remove the members of a project."""


@members.command("ls")
def member_ls(
    name: ProjectArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """List a project's members and their own limits."""
    project_members = make_client(url, data_dir).projects.members(name)
    return output.print_list(
        as_json,
        project_members,
        ("USER", "LIMITS"),
        lambda member: (
            member.user,
            ", ".join(
                f"{describe_limit(n)} {format_limit(n, v)}" for n, v in list_limits(member.limits)
            ),
        ),
    )


@members.command("add", epilog=examples("aitne admin member add vision ada --role manager"))
def member_add(
    name: ProjectArgument,
    user: MemberArgument,
    default: Annotated[
        bool, typer.Option("--default", help="Make it the user's default project.")
    ] = False,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="member|manager", help="Unset: a member, or as it is."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Add a member to a project; on Slurm `aitne admin sync` adds the user to its account."""
    client = make_client(url, data_dir)
    made = client.projects.put_member(name, user, role=role, default=default)
    note = "" if as_json else format_sync_note(client)
    return output.print_done(as_json, made.raw, f"{user}: member of {name}.{note}")


@members.command("remove", epilog=examples("aitne admin member remove vision ada --yes"))
def member_remove(
    name: ProjectArgument,
    user: MemberArgument,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove a member from a project. The user's jobs continue."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Remove {user} from {name}?")
    client.projects.remove_member(name, user)
    return output.print_done(
        as_json,
        {"project": name, "user": user, "removed": True},
        f"{user}: no longer a member of {name}.{'' if as_json else format_sync_note(client)}",
    )
