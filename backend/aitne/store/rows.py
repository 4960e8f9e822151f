"""Conversion between database rows and the models of ``core``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Text, cast

from aitne.core.models.access_token import Token
from aitne.core.models.cluster import Node
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobSpec
from aitne.core.models.usage_sample import Sample
from aitne.core.models.user import User
from aitne.core.units import parse_array
from aitne.store import tables

_jobs = tables.jobs
_NOT_SHOWN = {
    *("name_folded", "is_array", "task_count", "folder_due_at"),
    *("spec", "gpus", "gpu_type", "template", "image"),
}

JOB_COLUMNS: list[ColumnElement[Any]] = [
    *(column for column in _jobs.c if column.name not in _NOT_SHOWN),
    cast(_jobs.c.spec, Text).label("spec"),
]
"""Columns that ``job_of`` requires. The specification is read as text, because its parsed form is
usually cached by that text.
"""


@lru_cache(maxsize=1_024)
def _parse_job_spec(text: str) -> JobSpec:
    # The controller reads all live jobs repeatedly, and a specification seldom changes.
    # A field that another version stored is no error.
    return JobSpec.model_validate_json(text, extra="ignore")


def job_of(row: RowMapping) -> Job:
    """Return the job that a row with the columns ``JOB_COLUMNS`` contains."""
    excluded = row["excluded_nodes"] or ()  # NULL in rows of earlier releases
    return Job.model_validate(
        {**row, "spec": _parse_job_spec(row["spec"]), "excluded_nodes": excluded}
    )


def row_of(job: Job) -> dict[str, Any]:
    """Return the columns of a job's row."""
    values = {name: getattr(job, name) for name in Job.model_fields if name != "spec"}
    return columns_of(values) | {
        "spec": job.spec.model_dump(mode="json"),
        "name_folded": fold_case(job.name),
        "is_array": job.is_array,
        "task_count": job.array_task_ids and len(parse_array(job.array_task_ids).indices),
        "gpus": job.spec.resources.nodes * job.spec.resources.gpu.count,
        "gpu_type": job.spec.resources.gpu.type,
        "template": job.spec.template,
        "image": job.spec.image,
    }


def columns_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert fields of a job to values of its columns."""
    return {
        name: list(value)
        if name in ("nodes", "excluded_nodes")
        else value.model_dump(mode="json")
        if name == "spec"
        else value
        for name, value in values.items()
    }


def fold_case(text: str) -> str:
    """Return the text in the case-folded form that searches compare."""
    return text.casefold()


def event_data(job: Job, previous: Job | None) -> dict[str, Any]:
    """Return the field ``data`` of a job's event. It contains the values that pages show, so that
    they need no further request. ``previous`` is the job before the change; None: the job is new.
    """
    data: dict[str, Any] = {"state": job.state}
    if previous is not None and previous.state is not job.state:
        data["previous"] = previous.state
    times = {
        name: _format_time(getattr(job, name))
        for name in (
            "submitted_at",
            "allocated_at",
            "started_at",
            "ready_at",
            "ended_at",
            "expires_at",
            "idle_ends_at",
            "gpu_idle_since",
        )
    }
    return data | {
        "reason": job.reason,
        "message": job.message,
        "attempt": job.attempt,
        "nodes": list(job.nodes),
        "url": job.url,
        "exit_code": job.exit_code,
        **times,
        "cancel_requested": job.cancel_requested_at is not None,
        "version": job.version,
        "type": job.type,
        "name": job.name,
        "array_job_id": None if job.array_job_id is None else str(job.array_job_id),
        **({} if job.session_id is None else {"session_id": str(job.session_id)}),
        **({"task_group": True} if job.is_task_group else {}),
        **({"origin": job.origin} if job.is_outside else {}),
        **({"delete_requested": True} if job.delete_requested_at is not None else {}),
    }


def _format_time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def event_of(row: RowMapping) -> Event:
    """Return the event that a row contains."""
    return Event.model_validate(dict(row))


def sample_of(row: RowMapping) -> Sample:
    """Return the measurement that a row contains."""
    return Sample.model_validate(dict(row))


def node_of(row: RowMapping) -> Node:
    """Return the node that a row contains."""
    return Node.model_validate({**row["data"], "seen_at": row["seen_at"]})


def node_data(node: Node) -> dict[str, Any]:
    """Return a node as the stored JSON object, without the time of the poll."""
    return node.model_dump(mode="json", exclude={"seen_at"})


def make_user_from_row(row: RowMapping) -> User:
    """Return the user that a row contains, which may have further columns."""
    return User.model_validate({name: row[name] for name in User.model_fields})


def make_token_from_row(row: RowMapping) -> Token:
    """Return the personal access token that a row contains."""
    return Token.model_validate({name: row[name] for name in Token.model_fields})
