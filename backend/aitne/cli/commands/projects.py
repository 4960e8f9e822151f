"""``admin project``, ``admin member`` and ``admin sync``: projects and their accounts in Slurm."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.commands.limits import each_limit, limits_verb, show_limits, shown, words
from aitne.cli.commands.project_admin import install
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app

projects = group_app("Projects: list, create, limit, approve, decline.")
members = group_app("Members of a project: list, add, remove.")

install(projects)
projects.command(
    "limits",
    help="Show limits, or change those that are given; `none` is no limit.\n\n"
    "Slurm applies them after `aitne admin sync`.",
    epilog=examples(
        "aitne admin project limits vision --max-gpus 8 --max-gpus h200=4 --max-wall 2d\n"
        "aitne admin project limits vision --user ada --max-gpus 2\n"
        "aitne admin project limits vision --max-gpus none"
    ),
)(limits_verb(granted=True))

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The login name.")]


@projects.command("ls")
def project_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List all projects with their members."""
    all_projects = connect(url, data_dir).projects.list()
    return output.listing(
        as_json,
        all_projects,
        ("NAME", "STATE", "MEMBERS", "TITLE"),
        lambda project: (project.name, project.state, len(project.members), project.title),
    )


@projects.command("create", epilog=examples("aitne admin project create vision --title 'Vision'"))
def project_create(
    name: Name,
    title: Annotated[str, typer.Option("--title", help="Title.")] = "",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create a project without members; `aitne admin sync` adds it to Slurm."""
    made = connect(url, data_dir).projects.create(name, title=title)
    return output.done(
        as_json,
        made.raw,
        f"{made.name}: created. Add users: aitne admin member add {made.name} USER",
    )


@projects.command("show")
def project_show(
    name: Name, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show a project: members, limits and their use."""
    client = connect(url, data_dir)
    project, limits = client.projects.get(name), client.projects.limits(name)
    if as_json:
        output.answer_json({**project.raw, "limits": limits.raw})
        return 0
    output.facts(
        [
            ("project", project.name),
            ("title", project.title),
            ("members", ", ".join(project.members) or "none"),
        ]
    )
    show_limits(limits)
    return 0


@members.command("ls")
def member_ls(name: Name, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List a project's members and their own limits."""
    project_members = connect(url, data_dir).projects.members(name)
    return output.listing(
        as_json,
        project_members,
        ("USER", "LIMITS"),
        lambda member: (
            member.user,
            ", ".join(f"{words(n)} {shown(n, v)}" for n, v in each_limit(member.limits)),
        ),
    )


@members.command("add", epilog=examples("aitne admin member add vision ada --role manager"))
def member_add(
    name: Name,
    user: User,
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
    """Add a member to a project; `aitne admin sync` adds the user to Slurm."""
    made = connect(url, data_dir).projects.put_member(name, user, role=role, default=default)
    return output.done(
        as_json, made.raw, f"{user}: member of {name}. Slurm has it after `aitne admin sync`."
    )


@members.command("remove", epilog=examples("aitne admin member remove vision ada --yes"))
def member_remove(
    name: Name,
    user: User,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove a member from a project. The user's jobs continue."""
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Remove {user} from {name}?")
    client.projects.remove_member(name, user)
    return output.done(
        as_json,
        {"project": name, "user": user, "removed": True},
        f"{user}: no longer a member of {name}. Slurm has it after `aitne admin sync`.",
    )


def sync(yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Compare the projects with Slurm's accounts, and synchronize Slurm.

    Shows the differences and asks. Accounts that only Slurm has are not changed; users are removed
    from a project's account if they are not members here.
    """
    client = connect(url, data_dir)
    report = client.projects.compare()
    if not as_json:
        if report.differences:
            output.table(
                ("PROJECT", "USER", "WHAT", "IN SLURM", "HERE"),
                [(d.project, d.user or "", d.field, d.slurm, d.portal) for d in report.differences],
            )
        for note in report.unmanaged:
            output.say(f"unchanged: {note}")
    if report.differences:
        if not yes and not as_json:
            output.confirm(f"Make these {len(report.differences)} changes in Slurm?")
        if yes or not as_json:
            report = client.projects.sync(report.digest)
    if as_json:
        output.answer_json(report.raw)
    elif report.applied:
        output.say(f"{len(report.differences)} changes were made in Slurm.")
    else:
        output.say("Nothing differs.")
    return 0
