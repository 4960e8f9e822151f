"""Conversions between consecutive API versions of slurmrestd, so that all other code uses only one
version.

A job's record is converted version by version to the internal version; a submission is converted in
the opposite direction. Each step is a pure function of one JSON object. To support a new version,
one step is added to the mapping of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aitne.adapters.schedulers._slurm.rest.api_versions import SPOKEN
from aitne.adapters.slurm_special_values import INFINITE, is_number


class NotExpressible(Exception):
    """Error: the API version has no field for an option of the job."""


Record = dict[str, Any]
Step = Callable[[Record], Record]

_TIMES = (
    "accrue_time", "deadline", "eligible_time", "end_time", "last_sched_evaluation", "pre_sus_time",
    "preempt_time", "resize_time", "start_time", "submit_time", "suspend_time",
)  # fmt: skip
_NUMBERS = (
    "array_max_tasks", "cpus", "cpus_per_task", "delay_boot", "het_job_id", "het_job_offset",
    "max_cpus", "max_nodes", "memory_per_cpu", "memory_per_node", "minimum_cpus_per_node",
    "node_count", "priority", "tasks", "tasks_per_node", "time_minimum",
)  # fmt: skip


def to_number_object(value: object) -> Record:
    """Convert a number of old API versions to the object of new ones (slurm.h: INFINITE, NO_VAL)."""
    if isinstance(value, dict):
        return dict(value)
    plain = value if isinstance(value, int) and not isinstance(value, bool) else None
    infinite = plain == INFINITE
    is_set = plain is not None and is_number(plain)
    return {"set": is_set, "infinite": infinite, "number": plain if is_set else 0}


def _to_exit_object(status: object) -> Record:
    """Convert a wait status (POSIX waitpid) to the object of new API versions."""
    if not isinstance(status, int) or isinstance(status, bool) or not is_number(status):
        return {
            "status": ["INVALID"],
            "return_code": to_number_object(None),
            "signal": _to_signal_object(0),
        }
    signal = status & 0x7F
    code = status >> 8 & 0xFF
    word = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [word],
        "return_code": to_number_object(code),
        "signal": _to_signal_object(signal),
    }


def _to_signal_object(value: int) -> Record:
    return {"id": to_number_object(value or None), "name": ""}


def _record_38_to_40(old: Record) -> Record:
    """Convert a record of v0.0.38 to v0.0.40: words become lists of words, numbers become objects,
    and the wait status becomes an object.
    """
    new = dict(old)
    for key in (*_TIMES, *_NUMBERS):
        if key in old:
            new[key] = to_number_object(old[key])
    if "job_state" in old:
        new["job_state"] = _to_words(old["job_state"])
    if "time_limit" in old:
        # Slurm's null: the job has no limit of its own, so that of the partition (none) applies.
        limit = old["time_limit"]
        new["time_limit"] = to_number_object(INFINITE if limit is None else limit)
    for key in ("array_job_id", "array_task_id"):
        if key in old:
            # 0 is the first task; an array job's ID is never 0, so 0 means that there is no array.
            new[key] = to_number_object(old[key])
    for key in ("exit_code", "derived_exit_code"):
        if key in old:
            new[key] = _to_exit_object(old[key])
    if "shared" in old:
        new["shared"] = _to_words(old["shared"])
    if "job_resources" in old and isinstance(old["job_resources"], dict):
        new["job_resources"] = {"nodes": old["job_resources"].get("nodes", "")}
    return new


def _record_40_to_41(old: Record) -> Record:
    """Convert a record of v0.0.40 to v0.0.41: the list of nodes moves into a separate object."""
    new = dict(old)
    resources = old.get("job_resources")
    if isinstance(resources, dict) and isinstance(resources.get("nodes"), str):
        new["job_resources"] = {"nodes": {"list": resources["nodes"]}}
    return new


def _record_41_to_42(old: Record) -> Record:
    """Convert a record of v0.0.41 to v0.0.42: ``shared`` replaces ``exclusive`` and
    ``oversubscribe``.
    """
    new = {key: value for key, value in old.items() if key not in ("exclusive", "oversubscribe")}
    if "minimum_switches" in new:
        new["required_switches"] = new.pop("minimum_switches")
    return new


RECORDS: Mapping[int, tuple[int, Step]] = {
    38: (40, _record_38_to_40),
    40: (41, _record_40_to_41),
    41: (42, _record_41_to_42),
}
"""For each older version, the next version and the function that converts a record to it."""


_NO_NODES_38 = frozenset(
    {"required_nodes", "excluded_nodes", "required_switches", "wait_for_switch"}
)


def _submission_41_to_40(new: Record) -> Record:
    """Convert a submission of v0.0.41 to v0.0.40, with which sbatch does not repeat the CPUs of a task
    among its TRES.
    """
    old = {key: value for key, value in new.items() if key != "tres_per_task"}
    if "environment" in new:
        old["environment"] = [
            entry for entry in new["environment"] if not entry.startswith("SLURM_TRES_PER_TASK=")
        ]
    return old


def _submission_40_to_38(new: Record) -> Record:
    """Convert a submission of v0.0.40 to v0.0.38: lists of words become words, objects become
    numbers, and GRES are in a separate field.

    ``nodes`` stays a string: 22.05 documents a list of two numbers, but ignores it.
    """
    if "begin_time" in new:
        raise NotExpressible("22.05 documents a number but reads a date")
    if new.get("time_limit", {}).get("infinite"):
        raise NotExpressible("22.05 documents only numbers of minutes")
    if not new.keys().isdisjoint(_NO_NODES_38):
        raise NotExpressible("22.05 documents no fields for single nodes and switches")
    # 22.05 documents argv, and its slurmrestd crashes.
    old = {key: value for key, value in new.items() if key not in ("argv", "minimum_cpus")}
    for key in ("time_limit", "time_minimum", "memory_per_node", "memory_per_cpu", "priority"):
        if key in new:
            old[key] = _to_plain_number(new[key])
    old["environment"] = dict(entry.split("=", 1) for entry in new.get("environment", ()))
    if "tres_per_node" in old:
        # This version has no field tres_per_node: slurmctld would not receive it.
        old["gres"] = ",".join(
            part.removeprefix("gres/").removeprefix("gres:")
            for part in old.pop("tres_per_node").split(",")
        )
    if old.get("requeue") is False:
        # It accepts requeue, but requeues the job whatever the value is.
        del old["requeue"]
        old["no_requeue"] = True
    if old.pop("shared", None) == ["none"]:
        old["exclusive"] = "exclusive"
    if "open_mode" in old:
        old["open_mode"] = old["open_mode"][0].lower()
    if "KILL_INVALID_DEPENDENCY" in old.pop("flags", ()):
        old["kill_on_invalid_dependency"] = True
    if "kill_warning_signal" in old:
        if "BATCH_JOB" in old.pop("kill_warning_flags", ()):
            raise NotExpressible("22.05 documents B:signal but cannot parse it")
        delay = _to_plain_number(old.pop("kill_warning_delay"))
        old["signal"] = f"{old.pop('kill_warning_signal')}@{delay}"
    return old


def _to_plain_number(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return INFINITE if value.get("infinite") else value.get("number")


def _to_words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    return [] if value is None else [str(value)]


SUBMISSIONS: Mapping[int, tuple[int, Step]] = {
    42: (41, dict),
    41: (40, _submission_41_to_40),
    40: (38, _submission_40_to_38),
}


def upgrade_record(record: Mapping[str, Any], version: int) -> Record:
    """Convert a job's record of the API version ``version`` to the internal version."""
    return _apply_steps(RECORDS, dict(record), version, max(version, SPOKEN))


def downgrade_submission(job: Mapping[str, Any], version: int) -> Record:
    """Convert a submission of the internal version to the API version ``version``.

    Raises:
        NotExpressible: ``version`` has no field for an option of the job.
    """
    return _apply_steps(SUBMISSIONS, dict(job), SPOKEN, min(version, SPOKEN))


def _apply_steps(
    steps: Mapping[int, tuple[int, Step]], value: Record, start: int, goal: int
) -> Record:
    here = start
    while here != goal:
        here, step = steps[here]
        value = step(value)
    return value
