"""``admin project``, ``admin member`` and ``admin sync``: projects are Slurm's accounts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app
from aitne.client.projects import ProjectLimits

projects = group_app("Projects: what jobs are accounted to, and what it may use.")
members = group_app("Who works in a project.")

NONE = "none"
WORDS = {
    "max_gpus": "GPUs at once",
    "max_cpus": "CPUs at once",
    "max_memory_bytes": "memory at once",
    "max_nodes": "nodes at once",
    "max_jobs": "running jobs",
    "max_submitted": "waiting and running jobs",
    "max_wall_s": "time limit of a job",
    "gpu_hours": "GPU-hours",
    "qos": "QOS",
}

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The login name.")]


def _limit(name: str, what: str) -> Any:
    return typer.Option(name, metavar="N|none", help=what)


@projects.command("ls")
def project_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the projects."""
    found = connect(url, data_dir).projects.list()
    if as_json:
        output.answer_json([each.raw for each in found])
    else:
        rows = [(each.name, len(each.members), each.title) for each in found]
        output.table(("NAME", "MEMBERS", "TITLE"), rows)
    return 0


@projects.command("create", epilog=examples("aitne admin project create vision --title 'Vision'"))
def project_create(
    name: Name,
    title: Annotated[str, typer.Option("--title", help="What it is about.")] = "",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Make a project. It has no members yet; Slurm has it after `aitne admin sync`."""
    made = connect(url, data_dir).projects.create(name, title=title)
    if as_json:
        output.answer_json(made.raw)
    else:
        output.say(f"{made.name}: made. Add people: aitne admin member add {made.name} USER")
    return 0


@projects.command("show")
def project_show(
    name: Name, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show a project: members, limits, what is in use by whom."""
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
    _show_limits(limits)
    return 0


@projects.command(
    "limits",
    epilog=examples(
        "aitne admin project limits vision --max-gpus 8 --max-gpus h200=4 --max-wall 2d\n"
        "aitne admin project limits vision --user ada --max-gpus 2\n"
        "aitne admin project limits vision --max-gpus none"
    ),
)
def project_limits(
    name: Name,
    user: Annotated[str | None, typer.Option("--user", help="Of this member alone.")] = None,
    max_gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--max-gpus", metavar="[TYPE=]N|none", help="GPUs at once; may be repeated for types."
        ),
    ] = None,
    max_cpus: Annotated[str | None, _limit("--max-cpus", "CPUs at once.")] = None,
    max_memory: Annotated[str | None, _limit("--max-memory", "Memory at once: 200G.")] = None,
    max_nodes: Annotated[str | None, _limit("--max-nodes", "Nodes at once.")] = None,
    max_jobs: Annotated[str | None, _limit("--max-jobs", "Jobs that run at once.")] = None,
    max_submitted: Annotated[
        str | None, _limit("--max-submitted", "Jobs that wait or run.")
    ] = None,
    max_wall: Annotated[str | None, _limit("--max-wall", "Longest time of a job: 2d.")] = None,
    gpu_hours: Annotated[str | None, _limit("--gpu-hours", "GPU-hours in all.")] = None,
    qos: Annotated[
        str | None, typer.Option("--qos", metavar="A,B|none", help="QOS that jobs may name.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show limits, or change those that are given; the rest stays. `none` is no limit.

    Slurm holds to them after `aitne admin sync`.
    """
    given = {
        "max_cpus": max_cpus,
        "max_memory_bytes": max_memory,
        "max_nodes": max_nodes,
        "max_jobs": max_jobs,
        "max_submitted": max_submitted,
        "max_wall_s": max_wall,
        "gpu_hours": gpu_hours,
    }
    client = connect(url, data_dir)
    found = client.projects.limits(name)
    present = _own_limits(found, user)
    changed = _changed(present, given, max_gpus or [], qos)
    if changed != present:
        if user is None:
            found = client.projects.set_limits(name, changed)
        else:
            client.projects.put_member(name, user, limits=changed)
            found = client.projects.limits(name)
    if as_json:
        output.answer_json(found.raw)
        return 0
    if changed != present:
        output.say(f"{name}: new limits. Slurm holds to them after `aitne admin sync`.")
    _show_limits(found)
    return 0


def _own_limits(found: ProjectLimits, user: str | None) -> dict[str, Any]:
    from aitne.core.errors import InvalidInput

    if user is None:
        return found.limits
    for each in found.members:
        if each.user == user:
            return each.limits
    raise InvalidInput.field(
        "--user",
        f"is no member of {found.project}",
        value=user,
        allowed=", ".join(each.user for each in found.members) or "none",
    )


def _changed(
    present: dict[str, Any], given: dict[str, str | None], gpus: list[str], qos: str | None
) -> dict[str, Any]:
    changed = dict(present)
    for name, text in given.items():
        if text is not None:
            changed[name] = _value(text, plain=name not in ("max_memory_bytes", "max_wall_s"))
    types = dict(changed.get("max_gpus_by_type") or {})
    for text in gpus:
        kind, equals, count = text.partition("=")
        if not equals:
            changed["max_gpus"] = _value(text)
        elif count == NONE:
            types.pop(kind, None)
        else:
            types[kind] = _value(count)
    changed["max_gpus_by_type"] = types
    if qos is not None:
        changed["qos"] = [] if qos == NONE else [each for each in qos.split(",") if each]
    return changed


def _value(text: str, *, plain: bool = True) -> int | str | None:
    """A number, or text that the platform reads: of memory and time a bare number has no unit."""
    if text == NONE:
        return None
    return int(text) if plain and text.isdecimal() else text


def _show_limits(found: ProjectLimits) -> None:
    used = {each.limit: each for each in found.use}
    rows: list[tuple[str, ...]] = []
    for name, value in _each(found.limits):
        use = used.pop(name, None)
        by = "" if use is None else _by(name, use.by)
        shown = "" if use is None else _shown(name, use.used)
        rows.append(("", _words(name), _shown(name, value), shown, by))
    for name, use in used.items():
        if use.used:
            rows.append(("", _words(name), "", _shown(name, use.used), _by(name, use.by)))
    for member in found.members:
        rows += [(member.user, _words(n), _shown(n, v), "", "") for n, v in _each(member.limits)]
    if rows:
        output.table(("USER", "LIMIT", "MOST", "IN USE", "BY"), rows)
    else:
        output.say("No limits.")


def _each(limits: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for name, value in limits.items():
        if name == "max_gpus_by_type":
            found += [(f"{name}.{kind}", count) for kind, count in value.items()]
        elif value not in (None, []):
            found.append((name, value))
    return found


def _words(name: str) -> str:
    kind = name.removeprefix("max_gpus_by_type.")
    return f"{kind} GPUs at once" if kind != name else WORDS.get(name, name)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "max_memory_bytes":
        return output.memory(value) or "0"
    if name == "max_wall_s":
        return output.duration(value)
    return ",".join(value) if isinstance(value, list) else str(value)


def _by(name: str, users: dict[str, int]) -> str:
    most = sorted(users.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{user} {_shown(name, used)}" for user, used in most)


@members.command("ls")
def member_ls(name: Name, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List a project's members and their own limits."""
    found = connect(url, data_dir).projects.members(name)
    if as_json:
        output.answer_json([each.raw for each in found])
        return 0
    rows = [
        (each.user, ", ".join(f"{_words(n)} {_shown(n, v)}" for n, v in _each(each.limits)))
        for each in found
    ]
    output.table(("USER", "LIMITS"), rows)
    return 0


@members.command("add", epilog=examples("aitne admin member add vision ada --default"))
def member_add(
    name: Name,
    user: User,
    default: Annotated[
        bool, typer.Option("--default", help="Make it the user's default project.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Make somebody a member. Slurm knows it after `aitne admin sync`."""
    made = connect(url, data_dir).projects.put_member(name, user, default=default)
    if as_json:
        output.answer_json(made.raw)
    else:
        output.say(f"{user}: member of {name}. Slurm knows it after `aitne admin sync`.")
    return 0


@members.command("remove", epilog=examples("aitne admin member remove vision ada --yes"))
def member_remove(
    name: Name,
    user: User,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """End a membership. The user's jobs go on."""
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Take {user} out of {name}?")
    client.projects.remove_member(name, user)
    if as_json:
        output.answer_json({"project": name, "user": user, "removed": True})
    else:
        output.say(
            f"{user}: no member of {name} any more. Slurm knows it after `aitne admin sync`."
        )
    return 0


def sync(yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Compare the projects with Slurm's accounts, and bring Slurm in line.

    Shows what differs and asks. What only Slurm knows is left alone; users are taken out of a
    project's account where they are no members here.
    """
    client = connect(url, data_dir)
    report = client.projects.compare()
    if not as_json:
        if report.differences:
            output.table(
                ("PROJECT", "USER", "WHAT", "IN SLURM", "HERE"),
                [(d.project, d.user or "", d.what, d.slurm, d.portal) for d in report.differences],
            )
        for note in report.left_alone:
            output.say(f"left alone: {note}")
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
