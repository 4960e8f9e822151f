"""``aitne show``: a summary of one job."""

from __future__ import annotations

from aitne.cli import output
from aitne.cli.views.job_table import resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.client.records import AdviceRecord, Job


def show(job: Job, advice: Sequence[AdviceRecord]) -> None:
    """Print the job, its stages, the reason why it waits, and advice."""
    output.facts(
        [
            (job.type.capitalize(), output.plain(job.name, 80)),
            ("Id", job.id),
            ("State", job.state),
            ("Why", output.plain(job.message or "")),
            *(("Advice", _sentence(hint)) for hint in advice),
            ("Origin", "outside the platform" if job.origin == "outside" else None),
            ("Scheduler ID", job.scheduler_id if job.origin == "outside" else None),
            ("Log", output.plain(job.log_path or "")),
            ("Owner", job.owner),
            ("Project", job.project),
            ("Resources", resources(job.resources)),
            ("Nodes", ", ".join(job.nodes)),
            ("Expected start", output.moment(job.expected_start_at)),
            ("Started", output.moment(job.started_at)),
            ("Ends", output.moment(job.expires_at if not job.ended else None)),
            ("Ended", output.moment(job.ended_at)),
            ("Opens at", job.url if job.state == "READY" else None),
            *(
                (app["title"], f"aitne open {job.short_id} --app {app['name']}")
                for app in job.entry_points[1:]
                if app["url"]
            ),
        ]
    )


def _sentence(advice: AdviceRecord) -> str:
    names = ", ".join(f"{output.plain(job['name'], 40)} ({job['id'][:8]})" for job in advice.jobs)
    when = f"{output.moment(advice.at)}." if advice.at else ""
    return " ".join(filter(None, [output.plain(advice.text), names, when]))
