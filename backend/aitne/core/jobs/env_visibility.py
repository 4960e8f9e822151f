"""Visibility of the values of a job's environment variables, which only its owner may read."""

from __future__ import annotations

from aitne.core.models.job import Job
from aitne.core.models.user import Actor

HIDDEN = "***"
"""Text in place of a hidden value; names of variables are not hidden."""


def may_read_env_values(actor: Actor, job: Job) -> bool:
    """Return whether the actor is the job's owner, and not an administrator who impersonates the
    owner.
    """
    return actor.name == job.owner and actor.impersonator is None


def hide_env_values(actor: Actor, job: Job) -> Job:
    """Return a copy of the job in which the values of environment variables are replaced by
    ``HIDDEN``, or the job itself if the actor may see them.
    """
    if not job.spec.env or may_read_env_values(actor, job):
        return job
    env = dict.fromkeys(job.spec.env, HIDDEN)
    return job.model_copy(update={"spec": job.spec.model_copy(update={"env": env})})
