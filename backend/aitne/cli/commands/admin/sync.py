"""``admin sync``: the projects' accounts in Slurm."""

from __future__ import annotations

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes


@command("admin sync", example="aitne admin sync --yes")
def sync(yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Compare the projects with Slurm's accounts, and synchronize Slurm.

    The differences are shown before you are asked. Accounts that exist only in Slurm are not
    changed; users are removed from a project's account if they are not members of the project.
    """
    client = make_client(url, data_dir)
    report = client.projects.compare()
    if not as_json:
        if report.differences:
            output.print_table(
                ("PROJECT", "USER", "WHAT", "IN SLURM", "HERE"),
                [
                    (d.project, d.user or "", d.field, d.slurm, d.platform)
                    for d in report.differences
                ],
            )
        for note in report.unmanaged:
            output.print_message(f"unchanged: {note}")
    if report.differences:
        if not yes and not as_json:
            output.require_confirmation(f"Make these {len(report.differences)} changes in Slurm?")
        if yes or not as_json:
            report = client.projects.sync(report.digest)
    if as_json:
        output.print_json(report.raw)
    elif report.applied:
        output.print_message(f"{len(report.differences)} changes were made in Slurm.")
    else:
        output.print_message("Nothing differs.")
    return 0
