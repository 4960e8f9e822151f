"""Session tokens as sessions get them, with JupyterHub's handover."""

from __future__ import annotations

from uuid import UUID

from aitne.core.jobs.agent_protocol import Handover
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_session, store_job_token
from tests.support.stage import Stage

ENV = {"JUPYTERHUB_API_TOKEN": "hub"}


async def start_session(stage: Stage, owner: str, **fields: object) -> Job:
    """Create a running session of the owner that waits for its handover."""
    job = make_session(owner=owner, project="vision", **fields)
    await stage.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
        await stage.store.transition_job(job.id, state)
    return job


async def hand_over(stage: Stage, job_id: UUID) -> dict[str, str]:
    """Return the environment of the session's agent after a handover from JupyterHub."""
    handovers = stage.platform.handovers
    token_hash, epoch = hash_secret(str(job_id)), await stage.add_node()
    await store_job_token(stage.store, job_id, token_hash, epoch=epoch)
    await handovers.set_handover(job_id, Handover(env=ENV))
    given = await handovers.handover(str(job_id), job_id)
    assert given is not None
    return given.env


async def session_token(stage: Stage, owner: str) -> str:
    """Start a session of the owner; return its session token."""
    return (await hand_over(stage, (await start_session(stage, owner)).id))["AITNE_TOKEN"]
