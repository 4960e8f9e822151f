"""Limits of the number of jobs and tasks: the site's, or where it sets none those of Slurm."""

from __future__ import annotations

from aitne.core.models.cluster import Cluster
from aitne.core.settings import Settings
from aitne.core.units import MAX_ARRAY_TASKS

_ARRAY_TASKS = 1_000
_LIVE_JOBS = 2_000
"""Limits with a scheduler that reports none of its own."""


def max_array_tasks(settings: Settings, cluster: Cluster) -> int:
    """Return the maximum number of tasks of an array job."""
    if settings.limits.max_array_tasks is not None:
        return settings.limits.max_array_tasks
    if cluster.max_array_size is None:
        return _ARRAY_TASKS
    return min(cluster.max_array_size, MAX_ARRAY_TASKS)


def max_live_jobs(settings: Settings, cluster: Cluster) -> int:
    """Return the maximum number of jobs and array tasks of a user that wait or run.

    Slurm holds MaxJobCount jobs of all users together, in which an array whose tasks wait counts as
    one job; associations limit each user (MaxSubmitJobs).
    """
    if settings.limits.max_live_jobs is not None:
        return settings.limits.max_live_jobs
    if cluster.max_jobs is None:
        return _LIVE_JOBS
    return cluster.max_jobs + (cluster.max_array_size or 0)
