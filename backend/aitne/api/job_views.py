"""Representation of a job in the API."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job import (
    ContainerOptions,
    DistributedSpec,
    EnvironmentSpec,
    Job,
    JobType,
    RetryPolicy,
    Scalar,
    SlurmSpec,
)
from aitne.core.models.resources import Resources
from aitne.core.models.sweep import SweepSpec
from aitne.core.sessions import EntryPoint, entry_points
from aitne.core.stages import Stage, stages_of
from aitne.core.states import JobState, TerminationReason


class Action(StrEnum):
    """Action that the user may perform on the job now."""

    OPEN = "open"
    EXTEND = "extend"
    STOP = "stop"
    CANCEL = "cancel"
    ATTACH = "attach"
    RESUBMIT = "resubmit"
    CONTINUE = "continue"


class JobView(Frozen):
    """A job, session or array task, flat, with its stages and the permitted actions."""

    id: UUID
    type: JobType
    """Batch job or session."""
    name: str
    owner: str
    project: str
    cluster: str
    template: str | None
    template_version: str | None
    parameters: dict[str, Scalar]
    image: str
    """``bare``, ``name:version``, or the path of the owner's own image."""
    runtime: Annotated[str, Field(description="Runtime that starts the image; bare without one.")]
    image_digest: Annotated[
        str | None,
        Field(description="Fixed when the job was created; null without a catalogue image."),
    ]
    container: ContainerOptions
    """Options of the container."""
    environment: EnvironmentSpec
    """Environment that is loaded on the node before the program."""
    datasets: Annotated[
        tuple[DatasetUse, ...], Field(description="Dataset versions that it reads.")
    ]
    commands: tuple[str, ...]
    distributed: Annotated[
        DistributedSpec | None,
        Field(description="How its ranks are started; null: it has no ranks."),
    ]
    env: dict[str, str]
    secrets: tuple[str, ...]
    """Names of the owner's secrets that the job's programs get."""
    workdir: str | None
    resources: Resources
    max_duration_s: int
    """Time limit in seconds, after which the job is ended."""
    inactivity_duration_s: Annotated[
        int | None,
        Field(description="Sessions: time without activity after which it ends; null: none."),
    ]
    array: str | None
    """Indices of an array job's tasks, such as ``0-9%2``; null: not an array job."""
    sweep: Annotated[
        SweepSpec | None, Field(description="Parameter settings of its tasks; null: no sweep.")
    ]
    continues: Annotated[
        UUID | None, Field(description="Sessions: the ended session that it continues.")
    ]
    after: tuple[UUID, ...]
    """Jobs that must complete successfully before this one starts."""
    retry: RetryPolicy
    """Conditions under which the platform starts a further attempt."""
    slurm: SlurmSpec
    """Options for Slurm alone."""
    state: JobState
    reason: Annotated[TerminationReason | None, Field(description="Why it ended.")]
    message: Annotated[
        str | None, Field(description="Why it waits or why it ended, as a sentence.")
    ]
    attempt: int
    """Number of the attempt, counted from 1."""
    restart_count: int
    """Number of times that the scheduler restarted the job."""
    exit_code: int | None
    """Exit code of the program; null: none yet, or a signal ended it."""
    signal: int | None
    """Number of the signal that ended the program; null: none did."""
    nodes: tuple[str, ...]
    """Names of the nodes on which the job runs or ran."""
    account: Annotated[str | None, Field(description="Unix account under which it runs.")]
    partition: Annotated[str | None, Field(description="Partition that the scheduler chose.")]
    priority: Annotated[
        int | None, Field(description="Priority in the queue while it waits; higher is sooner.")
    ]
    array_job_id: UUID | None
    """For an array task: its array job."""
    array_task_id: int | None
    """For an array task: its index."""
    scheduler_id: str | None
    """Id of the job in the scheduler."""
    created_at: UtcTime
    submitted_at: UtcTime | None
    """Time at which the scheduler accepted the job."""
    allocated_at: UtcTime | None
    """Time at which nodes were allocated."""
    started_at: UtcTime | None
    ready_at: UtcTime | None
    """For sessions: time at which the app answered."""
    ended_at: UtcTime | None
    expires_at: UtcTime | None
    """Time at which the job reaches its time limit; null: not yet known."""
    expected_start_at: UtcTime | None
    """Start time that the scheduler expects; null: unknown."""
    idle_ends_at: Annotated[
        UtcTime | None,
        Field(description="Time at which it ends unless it is used again; null: not soon."),
    ]
    gpu_idle_since: Annotated[
        UtcTime | None,
        Field(description="Time since which its GPUs have been almost idle; null: they are not."),
    ]
    url: Annotated[str | None, Field(description="Sessions: URL of the default app, once READY.")]
    entry_points: tuple[EntryPoint, ...]
    """For sessions: the apps that can be opened, the default one first; empty for a job."""
    cancel_requested: bool
    """Whether cancellation was requested."""
    version: Annotated[int, Field(description="Number that grows with every change.")]
    stages: list[Stage]
    """Stages of the job."""
    actions: list[Action]
    """Actions that the user may perform on the job now."""

    @classmethod
    def of(cls, job: Job, actions: Sequence[str]) -> JobView:
        """Return the view of a job. Its fields were validated when they were stored, so not
        again."""
        return cls.model_construct(**drawn(job, actions))


def drawn(job: Job, actions: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a view. A list is serialized from these, without models."""
    spec = job.spec
    return {
        **{name: getattr(job, name) for name in _FROM_JOB},
        **{name: getattr(spec, name) for name in _FROM_SPEC},
        "image_digest": None if spec.image_use is None else spec.image_use.digest,
        "entry_points": entry_points(job),
        "cancel_requested": job.cancel_requested_at is not None,
        "stages": stages_of(job),
        "actions": [Action(action) for action in actions],
    }


_FROM_SPEC = (
    *("template", "template_version", "parameters", "image", "runtime", "container"),
    *("environment", "datasets", "commands", "distributed", "env", "secrets", "workdir"),
    *("resources", "max_duration_s", "inactivity_duration_s", "array", "sweep"),
    *("continues", "after", "retry", "slurm"),
)
_DRAWN = ("image_digest", "entry_points", "cancel_requested", "stages", "actions")
_FROM_JOB = tuple(name for name in JobView.model_fields if name not in {*_FROM_SPEC, *_DRAWN})


class JobPage(Frozen):
    """One page of jobs, newest first; ``total`` counts all that match."""

    items: list[JobView]
    next_cursor: str | None
    total: int
