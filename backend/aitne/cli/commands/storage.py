"""``storage``: the user's storage areas, their space and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url

if TYPE_CHECKING:
    from aitne.client.storage_areas import AreaFactsRecord, QuotaRecord

_BAR = 10


@command("storage", LOOK, example="aitne storage --project vision")
def storage(
    project: Annotated[
        str | None, typer.Option("--project", help="One project; unset: all of your projects.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show your folders, their space and quotas.

    Home, scratch and the folders of your projects, as your own account sees them.
    """
    client = make_client(url, data_dir)
    view = client.storage.get(project)
    if as_json:
        output.print_json({**view.raw, "jobs": client.storage.jobs().raw})
        return 0
    output.print_table(
        ("AREA", "PATH", "USED", "FREE", "FILES", "PROBLEM"),
        [
            (
                _format_area_name(facts),
                facts.area.path,
                _format_use(_select_quota(facts)),
                output.format_memory(facts.free_bytes),
                _format_file_count(_select_quota(facts)),
                _describe_problem(facts),
            )
            for facts in view.areas
        ],
    )
    folders = client.storage.jobs()
    if folders.jobs:
        jobs = "1 ended job" if folders.jobs == 1 else f"{folders.jobs} ended jobs"
        output.print_message(
            f"The folders of {jobs} take {output.format_memory(folders.size_bytes)} in {folders.files} "
            "files; `aitne rm` deletes jobs."
        )
    for problem in view.problems:
        output.print_message(output.to_single_line(problem))
    return 0


def _format_area_name(facts: AreaFactsRecord) -> str:
    area = facts.area
    return area.name if area.project is None else f"{area.name}/{area.project}"


def _select_quota(facts: AreaFactsRecord) -> QuotaRecord | None:
    """Return the quota to display for an area: for a project's folder, the project's quota or,
    without one, the user's; otherwise the user's quota. None: no quota.
    """
    if facts.area.project is not None:
        return facts.project_quota or facts.user_quota
    return facts.user_quota


def _format_use(quota: QuotaRecord | None) -> str:
    """Return a quota's use as text, such as ``[####------] 4 GiB of 10 GiB``; empty if it is
    unknown."""
    if quota is None or quota.used_bytes is None:
        return ""
    used = output.format_memory(quota.used_bytes)
    if not quota.limit_bytes:
        return used
    full = min(_BAR, round(_BAR * quota.used_bytes / quota.limit_bytes))
    return (
        f"[{'#' * full}{'-' * (_BAR - full)}] {used} of {output.format_memory(quota.limit_bytes)}"
    )


def _format_file_count(quota: QuotaRecord | None) -> str:
    if quota is None or quota.used_files is None:
        return ""
    limit = "" if quota.limit_files is None else f" of {quota.limit_files}"
    return f"{quota.used_files}{limit}"


def _describe_problem(facts: AreaFactsRecord) -> str:
    if not facts.available:
        return "missing"
    return "" if facts.writable else "read-only"
