"""Inactivity duration after which a session ends."""

from __future__ import annotations

from aitne.core.models.base import OFF
from aitne.core.models.job import JobType
from aitne.core.models.job_file import JobFile
from aitne.core.models.template import InactivityLimit, Template
from aitne.core.notifications.settings import IdleSettings
from aitne.core.units import format_duration
from aitne.services.jobs.cluster_check import Problems


def inactivity(
    file: JobFile,
    kind: JobType,
    template: Template | None,
    idle: IdleSettings,
    problems: Problems,
) -> int | None:
    """Return the number of seconds without activity after which the session that the job file
    describes is ended; None if there is no limit.

    The value in the job file takes precedence over the template's, and the template's over the
    value in the platform's settings. A value outside the permitted range is added to ``problems``.
    """
    requested = file.inactivity_duration
    if kind is not JobType.SESSION:
        if requested is not None:
            problems.add(
                "inactivity_duration", "a job ends by itself", str(requested), "only for sessions"
            )
        return None
    offered = InactivityLimit() if template is None else template.resources.inactivity_duration
    bounds = [bound for bound in (idle.max_inactivity_duration, offered.max) if bound is not None]
    maximum = min(bounds, default=None)
    if requested is None:
        usual = offered.default or idle.inactivity_duration
        return maximum if usual is None else min(usual, maximum or usual)
    if maximum is not None and (requested == OFF or int(requested) > maximum):
        problems.add(
            "inactivity_duration",
            "it is longer than allowed",
            OFF if requested == OFF else format_duration(int(requested)),
            f"at most {format_duration(maximum)}",
        )
    return None if requested == OFF else int(requested)
