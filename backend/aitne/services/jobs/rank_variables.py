"""Environment variables for ranks, and for the engines among them, which execute cells of notebooks."""

from __future__ import annotations

from uuid import UUID

from aitne.core.models.job import Job, JobSpec
from aitne.services.jobs.distributed_checks import TRANSPORT_OF


def has_engines(spec: JobSpec) -> bool:
    """Return whether ranks of the job execute cells of its session or notebook."""
    return spec.distributed is not None and bool(spec.apps or spec.notebook)


def rank_variables(job: Job) -> dict[str, str]:
    """Return the environment variables of the job's ranks for their runtime."""
    chosen = job.spec.distributed
    if chosen is None:
        return {}
    variables = {
        "AITNE_TRANSPORT": TRANSPORT_OF.get(chosen.backend, chosen.backend),
        "AITNE_STRATEGY": chosen.strategy,
        "AITNE_COMPRESS": chosen.compress,
    }
    return variables | (_engine_variables(job, job.id) if has_engines(job.spec) else {})


def rank_group_variables(job: Job) -> dict[str, str]:
    """Return the environment variables that tell the engines of a rank group to which session they
    belong; empty for other jobs.
    """
    group = job.spec.rank_group
    if group is None:
        return {}
    idle = {} if group.idle_s is None else {"AITNE_RANKS_IDLE_S": str(group.idle_s)}
    return _engine_variables(job, group.session) | idle


def notebook_variables(job: Job) -> dict[str, str]:
    """Return the environment variables that tell a notebook which ranks it may use, namely those of
    its own job; empty for a job without a notebook.
    """
    if job.spec.notebook is None:
        return {}
    variables = _engine_variables(job, job.id)
    names = ("AITNE_RANKS_FOLDER", *(("AITNE_RANK_GROUP",) if job.spec.distributed else ()))
    return {name: variables[name] for name in names}


def _engine_variables(job: Job, session: UUID) -> dict[str, str]:
    """Return the environment variables that tell engines to which session and job they belong. They
    are the same for the ranks on the session's own nodes.
    """
    return {
        "AITNE_SESSION": str(session),
        "AITNE_RANK_GROUP": str(job.id),
        # Below the home folder, which the engine expands: in a container it may be another one.
        "AITNE_RANKS_FOLDER": f"~/.aitne/ranks/{job.id}",
    }
