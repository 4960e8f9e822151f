"""``project limits`` and ``admin project limits``: one implementation for the limits that managers
set and those that administrators grant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, ProjectArgument, Url
from aitne.client import Client
from aitne.client.project_records import ProjectLimitsRecord

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


def format_sync_note(client: Client) -> str:
    """Return a sentence, with a leading space, which says that changed limits apply only after
    Slurm's accounts are synchronized; empty if they apply immediately.
    """
    after_sync = client.me().platform.limits_applied == "after_sync"
    return " Slurm has it after `aitne admin sync`." if after_sync else ""


def _make_option(name: str, what: str) -> Any:
    return typer.Option(name, metavar="N|none", help=what)


def make_limits_command(*, granted: bool) -> Callable[..., int]:
    """Return the function of a command that shows and changes limits.

    With ``granted``, administrators change the limits that the project is granted; otherwise its
    managers set lower ones.
    """

    def limits(
        name: ProjectArgument,
        user: Annotated[str | None, typer.Option("--user", help="Only of this member.")] = None,
        max_gpus: Annotated[
            list[str] | None,
            typer.Option(
                "--max-gpus",
                metavar="[TYPE=]N|none",
                help="GPUs at once; may be repeated for types.",
            ),
        ] = None,
        max_cpus: Annotated[str | None, _make_option("--max-cpus", "CPUs at once.")] = None,
        max_memory: Annotated[
            str | None, _make_option("--max-memory", "Memory at once: 200G.")
        ] = None,
        max_nodes: Annotated[str | None, _make_option("--max-nodes", "Nodes at once.")] = None,
        max_jobs: Annotated[
            str | None, _make_option("--max-jobs", "Jobs that run at once.")
        ] = None,
        max_submitted: Annotated[
            str | None, _make_option("--max-submitted", "Jobs that wait or run.")
        ] = None,
        max_wall: Annotated[
            str | None, _make_option("--max-wall", "Maximum time limit of a job: 2d.")
        ] = None,
        gpu_hours: Annotated[str | None, _make_option("--gpu-hours", "GPU-hours in total.")] = None,
        qos: Annotated[
            str | None, typer.Option("--qos", metavar="A,B|none", help="QOS that jobs may name.")
        ] = None,
        as_json: Json = False,
        url: Url = None,
        data_dir: DataDir = None,
    ) -> int:
        values = {
            "max_cpus": max_cpus,
            "max_memory_bytes": max_memory,
            "max_nodes": max_nodes,
            "max_jobs": max_jobs,
            "max_submitted": max_submitted,
            "max_wall_s": max_wall,
            "gpu_hours": gpu_hours,
        }
        client = make_client(url, data_dir)
        project_limits = client.projects.limits(name)
        present = _get_limits(project_limits, user, granted=granted)
        changed = _merge_changes(present, values, max_gpus or [], qos)
        if changed != present:
            if user is None and granted:
                project_limits = client.projects.set_limits(name, changed)
            elif user is None:
                project_limits = client.projects.set_own_limits(name, changed)
            else:
                client.projects.put_member(name, user, limits=changed)
                project_limits = client.projects.limits(name)
        if as_json:
            output.print_json(project_limits.raw)
            return 0
        if changed != present:
            when = format_sync_note(client) or " They apply at once; running jobs continue."
            output.print_message(f"{name}: new limits.{when}")
        print_limits(project_limits)
        return 0

    return limits


def _get_limits(
    project_limits: ProjectLimitsRecord, user: str | None, *, granted: bool
) -> dict[str, Any]:
    from aitne.core.errors import InvalidInput

    if user is None and granted:
        # The lower limits that its managers have set are not changed.
        return project_limits.granted or project_limits.limits
    if user is None:
        return project_limits.own or {}
    for member in project_limits.members:
        if member.user == user:
            return member.limits
    raise InvalidInput.field(
        "--user",
        f"is not a member of {project_limits.project}",
        value=user,
        allowed=", ".join(member.user for member in project_limits.members) or "none",
    )


def _merge_changes(
    limits: dict[str, Any], values: dict[str, str | None], gpus: list[str], qos: str | None
) -> dict[str, Any]:
    changed = dict(limits)
    for name, text in values.items():
        if text is not None:
            changed[name] = _parse_value(text, plain=name not in ("max_memory_bytes", "max_wall_s"))
    types = dict(changed.get("max_gpus_by_type") or {})
    for text in gpus:
        kind, equals, count = text.partition("=")
        if not equals:
            changed["max_gpus"] = _parse_value(text)
        elif count == NONE:
            types.pop(kind, None)
        else:
            types[kind] = _parse_value(count)
    changed["max_gpus_by_type"] = types
    if qos is not None:
        changed["qos"] = (
            [] if qos == NONE else [qos_name for qos_name in qos.split(",") if qos_name]
        )
    return changed


def _parse_value(text: str, *, plain: bool = True) -> int | str | None:
    """Convert a limit on the command line: ``none`` to None, a number to int if ``plain``. Any
    other text, such as ``16G``, is parsed by the platform."""
    if text == NONE:
        return None
    return int(text) if plain and text.isdecimal() else text


def print_limits(limits: ProjectLimitsRecord) -> None:
    """Print the limits of a project and their use as a table, with the own limits of its
    members."""
    used = {usage.limit: usage for usage in limits.use}
    rows: list[tuple[str, ...]] = []
    for name, value in list_limits(limits.limits):
        use = used.pop(name, None)
        by = "" if use is None else _format_use_by_user(name, use.by_user)
        in_use = "" if use is None else format_limit(name, use.used)
        rows.append(("", describe_limit(name), format_limit(name, value), in_use, by))
    for name, use in used.items():
        if use.used:
            rows.append(
                (
                    "",
                    describe_limit(name),
                    "",
                    format_limit(name, use.used),
                    _format_use_by_user(name, use.by_user),
                )
            )
    for member in limits.members:
        rows += [
            (member.user, describe_limit(n), format_limit(n, v), "", "")
            for n, v in list_limits(member.limits)
        ]
    if rows:
        output.print_table(("USER", "LIMIT", "MAXIMUM", "IN USE", "BY"), rows)
    else:
        output.print_message("No limits.")


def list_limits(limits: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return name and value of each limit that is set, with a separate entry for each type of
    GPU."""
    entries = []
    for name, value in limits.items():
        if name == "max_gpus_by_type":
            entries += [(f"{name}.{kind}", count) for kind, count in value.items()]
        elif value not in (None, []):
            entries.append((name, value))
    return entries


def describe_limit(name: str) -> str:
    """Return the description of the limit ``name``."""
    kind = name.removeprefix("max_gpus_by_type.")
    return f"{kind} GPUs at once" if kind != name else WORDS.get(name, name)


def format_limit(name: str, value: Any) -> str:
    """Return a limit's value as text with its unit; empty for None."""
    if value is None:
        return ""
    if name == "max_memory_bytes":
        return output.format_memory(value)
    if name == "max_wall_s":
        return output.format_duration(value)
    return ",".join(value) if isinstance(value, list) else str(value)


def _format_use_by_user(name: str, users: dict[str, int]) -> str:
    ranked = sorted(users.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{user} {format_limit(name, used)}" for user, used in ranked)
