"""Models of a job in the API's responses."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field

from aitne.core.jobs.progress_stages import Stage, list_stages
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, JobDescription, JobStatus
from aitne.core.sessions.entry_points import EntryPoint, entry_points


class Action(StrEnum):
    """Action that the user may perform on the job now."""

    OPEN = "open"
    EXTEND = "extend"
    STOP = "stop"
    CANCEL = "cancel"
    ATTACH = "attach"
    HOLD = "hold"
    RELEASE = "release"
    RESUBMIT = "resubmit"
    CONTINUE = "continue"
    DELETE = "delete"


class JobView(JobDescription, JobStatus):
    """Job, session or array task as the API returns it, with its stages and the permitted
    actions."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    image_digest: str | None = Field(
        description="Fixed when the job was created; null without a catalogue image."
    )
    entry_points: tuple[EntryPoint, ...]
    """For sessions: the apps that can be opened, the default one first; empty for a job."""
    cancel_requested: bool
    """Whether cancellation was requested."""
    stages: list[Stage]
    """Stages of the job."""
    actions: list[Action]
    """Actions that the user may perform on the job now."""

    @classmethod
    def from_job(cls, job: Job, actions: Sequence[str]) -> JobView:
        """Create the view of a job, without validating its fields again."""
        return cls.model_construct(**make_view_fields(job, actions))


def make_view_fields(job: Job, actions: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a ``JobView`` as a dictionary, from which a list of jobs is serialized
    without creating models."""
    spec = job.spec
    return {
        **{name: getattr(job, name) for name in JobStatus.model_fields},
        **{name: getattr(spec, name) for name in JobDescription.model_fields},
        "image_digest": None if spec.image_use is None else spec.image_use.digest,
        "entry_points": entry_points(job),
        "cancel_requested": job.cancel_requested_at is not None,
        "stages": list_stages(job),
        "actions": [Action(action) for action in actions],
    }


class JobPage(Frozen):
    """One page of jobs, newest first; ``total`` is the number of jobs on all pages."""

    items: list[JobView]
    next_cursor: str | None
    total: int
