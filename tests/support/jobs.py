"""Builders of valid jobs whose fields can be overridden."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from aitne.core.jobs.array_job_state import array_id, make_pending_tasks_id, task_id
from aitne.core.jobs.states import JobState
from aitne.core.models.job import AppSpec, Job, JobSpec, JobType
from aitne.core.models.resources import Resources
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.units import parse_array
from aitne.store.transitions import TransitionRequest, TransitionStore

CREATED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""The default creation time of jobs of ``make_job``."""


def make_spec(**overrides: Any) -> JobSpec:
    """Return the specification of a small batch job; a session gets the app JupyterLab."""
    values: dict[str, Any] = {
        "type": JobType.JOB,
        "name": "digits",
        "project": "vision",
        "commands": ("python train.py",),
        **overrides,
    }
    if values["type"] == JobType.SESSION and "apps" not in overrides:
        values |= {"apps": (AppSpec(name="lab", title="JupyterLab"),), "commands": ()}
    return JobSpec.model_validate(values)


def make_job(**overrides: Any) -> Job:
    """Return a job of ada in the project vision, in the state PENDING_SUBMIT.

    ``spec`` may be a ``JobSpec`` or a dictionary of its fields. The job and its specification have
    the same ``type``, ``name`` and ``project``.
    """
    spec = overrides.pop("spec", {})
    if isinstance(spec, dict):
        shared = {key: overrides[key] for key in ("type", "name", "project") if key in overrides}
        spec = make_spec(**{**spec, **shared})
    values: dict[str, Any] = {
        "id": uuid4(),
        "owner": "ada",
        "project": spec.project,
        "type": spec.type,
        "name": spec.name,
        "spec": spec,
        "state": JobState.PENDING_SUBMIT,
        "created_at": CREATED_AT,
        **overrides,
    }
    return Job.model_validate(values)


def make_session(**overrides: Any) -> Job:
    """Return a job that is a JupyterLab session."""
    return make_job(**{"type": JobType.SESSION, "name": "lab", **overrides})


def make_rank_group(session: Job, **overrides: Any) -> Job:
    """Return a rank group of the session, with two ranks on one node."""
    spec = {
        "commands": (),
        "distributed": {"ranks_per_node": 2},
        "rank_group": {"session": session.id, "idle_s": 900},
        **overrides.pop("spec", {}),
    }
    own = {"owner": session.owner, "project": session.project, "session_id": session.id}
    return make_job(**{"name": "Ranks of lab", **own, **overrides, "spec": spec})


def make_array(indices: str = "0-2", **overrides: Any) -> tuple[Job, list[Job]]:
    """Return an array job and its tasks; ``indices`` as in a job file's ``array:``."""
    spec = {**overrides.get("spec", {}), "array": indices}
    parent = make_job(**{"id": array_id(uuid4()), **overrides, "spec": spec})
    return parent, [make_task(parent, index) for index in parse_array(indices).indices]


def make_task(parent: Job, index: int, **overrides: Any) -> Job:
    """Return the job of one task of an array."""
    own = {"id": task_id(parent.id, index), "array_job_id": parent.id, "array_task_id": index}
    return parent.model_copy(update={**own, **overrides})


def make_task_group(parent: Job, indices: str | None = None) -> Job:
    """Return the task group of an array; its tasks are all of the array by default."""
    own = {
        "id": make_pending_tasks_id(parent.id),
        "array_job_id": parent.id,
        "array_task_ids": indices or parent.spec.array,
    }
    return parent.model_copy(update=own)


async def store_job_token(
    store: TransitionStore, job_id: UUID, token_hash: str, *, epoch: int
) -> None:
    """Store the hash of a job's token, as the submission of the job does."""
    moves = [TransitionRequest(job_id, None)]
    await store.apply_transitions(moves, epoch=epoch, tokens={job_id: token_hash})


def make_request(**changes: Any) -> SubmitRequest:
    """Return a request to submit a job of one minute; ``changes`` are other fields."""
    facts: dict[str, Any] = {
        "job_id": uuid4(),
        "attempt": 1,
        "owner": "ada",
        "project": "ml",
        "name": "x",
        "script": "",
        "job_dir": "/home/ada/jobs/1",
        "resources": Resources(),
        "time_limit_s": 60,
    }
    return SubmitRequest(**(facts | changes))
