"""Error messages of Slurm's commands, and what they say about whether a request had an effect.

The texts of ``errors`` follow "Batch job submission failed: " and "allocation failure: "
(src/sbatch/sbatch.c).
"""

from __future__ import annotations

import re
from datetime import datetime

from aitne.adapters.schedulers._slurm.squeue_parser import node_names
from aitne.adapters.schedulers._slurm.submission_failure import (
    SubmissionFailure,
    classify_error_text,
)
from aitne.adapters.schedulers._slurm.times import parse_time
from aitne.core.errors import SchedulerRejected
from aitne.core.ports.scheduler import Forecast, SubmitRequest

_FAILED = re.compile(r"(?:Batch job submission failed|allocation failure): (.+)")

_GPUS = "resources.gpu"
_MOST_LINES = 8
_UNEXPLAINED = "Unspecified error"
_FIELDS: tuple[tuple[str, str, str], ...] = (
    # text, field, sentence
    ("Invalid partition name", "slurm.partition", "there is no such partition"),
    ("No partition specified", "slurm.partition", "the cluster has no default partition; name one"),
    ("User's group not permitted", "slurm.partition", "it is not open to the groups you are in"),
    ("Partition in DOWN state", "slurm.partition", "the partition is down"),
    ("Required partition not available", "slurm.partition", "the partition accepts no jobs now"),
    ("Multiple partition job request", "slurm.partition", "name a single partition here"),
    ("Invalid account", "project", "it is not a Slurm account that you may use in that partition"),
    ("Invalid qos", "slurm.qos", "there is no such QOS, or it is not open to you"),
    ("breached requested QOS usage", "slurm.qos", "your project has used up what it allows for now"),
    ("Invalid feature", "slurm.constraint", "no node has these features"),
    ("Invalid preferred feature", "slurm.constraint", "no node has these features"),
    ("--batch option", "slurm.constraint", "no node has these features"),
    ("requested reservation", "slurm.reservation", "the reservation is not open to you"),
    ("reservation is invalid", "slurm.reservation", "there is no such reservation"),
    ("reservation not usable", "slurm.reservation", "the reservation cannot be used now"),
    ("reservation is in use", "slurm.reservation", "the reservation is in use"),
    ("--reservation", "slurm.reservation", "there is no such reservation"),
    ("Invalid generic resource", "resources.gres", "the cluster has no such generic resource"),
    ("Invalid GRES", "resources.gres", "with and without a type cannot be mixed here"),
    ("Duplicate generic resource", "resources.gres", "it is named twice"),
    ("Insufficient GRES", _GPUS, "the cluster does not have as many"),
    ("Invalid Trackable RESource", "resources", "Slurm does not count such a resource"),
    ("Memory ", "resources.memory", "it is more than Slurm gives on one node"),
    ("memory", "resources.memory", "it is more than Slurm gives on one node"),
    ("CPU count", "resources.cpu", "it is more than Slurm gives on one node"),
    ("More processors requested", "resources.cpu", "it is more than Slurm gives"),
    ("Node count specification", "resources.nodes", "the partition does not allow as many, or as few"),
    ("time limit is invalid", "max_duration", "it is missing or more than Slurm allows here"),
    ("time-min", "slurm.time_min", "it must not be more than max_duration"),
    ("Invalid job array", "array", "an index or the number of tasks is more than Slurm allows"),
    ("dependency", "after", "Slurm no longer knows that job, or the jobs wait for each other"),
    ("--signal", "slurm.signal", "there is no such signal"),
    ("license", "slurm.licenses", "there is no such licence"),
    ("unrecognized option", "slurm.extra", "this release of sbatch does not have it"),
    ("Invalid --", "slurm.extra", "sbatch does not understand it"),
    ("ambiguous", "slurm.extra", "sbatch does not understand it"),
    ("requires an argument", "slurm.extra", "an option needs a value"),
    ("Invalid node name", "slurm.exclude", "there is no such node"),
    ("Requested nodes not in this", "slurm.extra", "these nodes are not in that partition"),
    ("wckey", "slurm.extra", "there is no such wckey"),
    ("violates accounting/QOS policy", "resources", "it is more than your project or QOS allows"),
    ("node configuration is not available", "resources", "no node has all of it"),
    ("partition configuration not available", "resources", "the partition does not allow it"),
    ("Invalid user", "owner", "Slurm does not know this account"),
    ("Access/permission denied", "project", "Slurm does not permit this account to submit there"),
)  # fmt: skip


def parse_submission_failure(output: str) -> SubmissionFailure:
    """Determine from the output of a failed sbatch whether the job may have been submitted."""
    failed = _FAILED.search(output)
    # sbatch prints "Batch job submission failed" for every rejection by slurmctld, but not for an
    # option that it does not send at all.
    return classify_error_text(output if failed is None else failed[1])


def make_rejection(output: str, request: SubmitRequest) -> SchedulerRejected:
    """Convert sbatch's error output to ``SchedulerRejected``. Its message names the field of the job
    file and the reason, then quotes Slurm.
    """
    field, reason = _find_rejected_field(output, request)
    slurm_message = format_error_output(output)
    if field is None:
        return SchedulerRejected(f"Slurm refused the job: {slurm_message}")
    shown = _format_field_value(field, request)
    return SchedulerRejected(f"{field}: {shown}{reason}. Slurm says: {slurm_message}", field)


def format_error_output(output: str) -> str:
    """Return the first lines of a command's error output as one line; messages of the site's own
    plugins come before Slurm's.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " ".join(line.removeprefix("sbatch: error: ") for line in lines[:_MOST_LINES])


def _find_rejected_field(output: str, request: SubmitRequest) -> tuple[str | None, str]:
    if _UNEXPLAINED in output:
        # The refusal of a plugin, whose own sentence may mention anything.
        return None, ""
    for text, field, reason in _FIELDS:
        if text in output:
            if field == "project" and request.slurm.account:
                return "slurm.account", reason
            if field == "slurm.exclude" and request.slurm.exclude is None:
                return "slurm.extra", reason
            if field == "resources.gres" and not request.resources.gres:
                return _GPUS, reason
            return field, reason
    return None, ""


def _format_field_value(field: str, request: SubmitRequest) -> str:
    requested = request.resources
    value: object = {
        **{f"slurm.{name}": value for name, value in request.slurm if value and name != "extra"},
        "project": request.project,
        "array": request.array,
        "resources.gpu": requested.gpu if requested.gpu.count else None,
        "resources.cpu": requested.cpu,
        "resources.nodes": requested.nodes,
        "after": ", ".join(request.after) or None,
    }.get(field)
    return "" if value is None else f"{value}: "


def parse_job_id(output: str) -> str | None:
    """Return the ID in ``123`` or ``123;cluster`` of sbatch --parsable; None for any other
    text.
    """
    match = re.fullmatch(r"([1-9][0-9]*)(?:;[^\n]*)?", output.strip())
    return None if match is None else match[1]


_START = re.compile(
    r"Job [0-9]+ to start at (?P<at>\S+)(?: a)? using [0-9]+ processors"
    r"(?: on(?: nodes)? (?P<nodes>\S+))?(?: in partition (?P<partition>\S+))?"
)


def parse_forecast(output: str) -> Forecast:
    """Parse the output of a successful ``sbatch --test-only``: start time, nodes and partition,
    which are unknown if the output does not contain them.
    """
    match = _START.search(output)
    if match is None:
        return Forecast()
    at: datetime | None = parse_time(match["at"])
    return Forecast(
        starts_at=at, nodes=node_names(match["nodes"] or ""), partition=match["partition"]
    )
