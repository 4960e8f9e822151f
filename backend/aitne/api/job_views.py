"""A job as the API shows it."""

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
    """What the one who asks may do with the job now."""

    OPEN = "open"
    EXTEND = "extend"
    STOP = "stop"
    CANCEL = "cancel"
    ATTACH = "attach"
    RESUBMIT = "resubmit"
    CONTINUE = "continue"


class JobView(Frozen):
    """A job, session or array task, flat, with its stages and what may be done with it."""

    id: UUID
    type: JobType
    """A batch job, or a session."""
    name: str
    owner: str
    project: str
    cluster: str
    template: str | None
    template_version: str | None
    parameters: dict[str, Scalar]
    image: str
    """``bare``, ``name:version``, or the path of an image of the owner's own."""
    runtime: Annotated[str, Field(description="What runs the image; bare without one.")]
    image_digest: Annotated[
        str | None, Field(description="Fixed when the job was made; null without a known image.")
    ]
    container: ContainerOptions
    """How the image is run."""
    environment: EnvironmentSpec
    """What is loaded on the node before the program."""
    datasets: Annotated[tuple[DatasetUse, ...], Field(description="The versions that it reads.")]
    commands: tuple[str, ...]
    distributed: Annotated[
        DistributedSpec | None, Field(description="How its ranks are started; null: it has none.")
    ]
    env: dict[str, str]
    secrets: tuple[str, ...]
    """Names of the owner's secrets that its programs get."""
    workdir: str | None
    resources: Resources
    max_duration_s: int
    """Ended after so many seconds."""
    inactivity_duration_s: Annotated[
        int | None,
        Field(description="Sessions: ended after so long without activity; null: never."),
    ]
    array: str | None
    """The indices of an array job's tasks, such as ``0-9%2``; null: no array job."""
    sweep: Annotated[SweepSpec | None, Field(description="What its tasks try; null: no sweep.")]
    continues: Annotated[
        UUID | None, Field(description="Of a session: the ended one whose work it takes up.")
    ]
    after: tuple[UUID, ...]
    """Jobs that must have succeeded before it begins."""
    retry: RetryPolicy
    """When it runs again by itself."""
    slurm: SlurmSpec
    """What only Slurm knows."""
    state: JobState
    reason: Annotated[TerminationReason | None, Field(description="Why it ended.")]
    message: Annotated[str | None, Field(description="Why it waits or why it ended, in words.")]
    attempt: int
    """How many times it was tried, this one included."""
    restart_count: int
    """How many times the scheduler began it again."""
    exit_code: int | None
    """Of its program; null: none yet, or a signal ended it."""
    signal: int | None
    """The number of the signal that ended its program; null: none did."""
    nodes: tuple[str, ...]
    """The names of the nodes that it runs or ran on."""
    account: Annotated[str | None, Field(description="The Unix account it runs as.")]
    partition: Annotated[str | None, Field(description="Where the scheduler put it.")]
    priority: Annotated[
        int | None, Field(description="The scheduler's number while it waits: higher is sooner.")
    ]
    array_job_id: UUID | None
    """Of an array task: its array job."""
    array_task_id: int | None
    """Of an array task: its index."""
    scheduler_id: str | None
    """What the scheduler calls it."""
    created_at: UtcTime
    submitted_at: UtcTime | None
    """When the scheduler took it."""
    allocated_at: UtcTime | None
    """When it was given its nodes."""
    started_at: UtcTime | None
    ready_at: UtcTime | None
    """Sessions: when the app answered."""
    ended_at: UtcTime | None
    expires_at: UtcTime | None
    """When it is ended because its time is over; null: it has none yet."""
    expected_start_at: UtcTime | None
    """When the scheduler means to begin it; null: it does not say."""
    idle_ends_at: Annotated[
        UtcTime | None,
        Field(description="When it is ended unless somebody works in it again; null: not soon."),
    ]
    gpu_idle_since: Annotated[
        UtcTime | None,
        Field(description="Since when its GPUs have had next to nothing to do; null: they have."),
    ]
    url: Annotated[str | None, Field(description="Sessions: where Open leads, once READY.")]
    entry_points: tuple[EntryPoint, ...]
    """Sessions: the ways in, the one that Open leads to first; empty for a job."""
    cancel_requested: bool
    """Somebody has asked for its end."""
    version: Annotated[int, Field(description="Grows with every change.")]
    stages: list[Stage]
    """The steps on its way."""
    actions: list[Action]
    """What you may do with it now."""

    @classmethod
    def of(cls, job: Job, actions: Sequence[str]) -> JobView:
        """Draw the view. Everything in it was validated when it was stored, so no second time."""
        return cls.model_construct(**drawn(job, actions))


def drawn(job: Job, actions: Sequence[str]) -> dict[str, Any]:
    """The fields of a view. A list is written out from these: it has no use for the models."""
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
