"""The values of a job's environment variables, which only its owner reads."""

from __future__ import annotations

from aitne.core.models.job import Job
from aitne.core.models.user import Actor

HIDDEN = "***"
"""Shown instead of a value; names are shown."""


def sees_env_values(actor: Actor, job: Job) -> bool:
    """Return whether the actor is the job's owner, not an administrator who acts as the owner."""
    return actor.name == job.owner and actor.impersonator is None


def with_visible_env(actor: Actor, job: Job) -> Job:
    """Return the job as the actor may see it."""
    if not job.spec.env or sees_env_values(actor, job):
        return job
    env = dict.fromkeys(job.spec.env, HIDDEN)
    return job.model_copy(update={"spec": job.spec.model_copy(update={"env": env})})
