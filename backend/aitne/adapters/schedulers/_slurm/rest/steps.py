"""Steps between neighbouring versions of the interface, so that the code knows only one of them.

A job's record is lifted version by version to the one spoken; a submission is lowered the same way.
Each step is a pure function of one JSON object. A new version is one more entry in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aitne.adapters.schedulers._slurm.rest.versions import SPOKEN


class NotExpressible(Exception):
    """The version has no way to say this."""


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
_INFINITE = 0xFFFFFFFF
_UNSET = 0xFFFFFFFE


def number(value: object) -> Record:
    """A plain number of old versions as the triple of new ones (slurm.h: INFINITE, NO_VAL)."""
    if isinstance(value, dict):
        return dict(value)
    plain = value if isinstance(value, int) and not isinstance(value, bool) else None
    infinite = plain == _INFINITE
    known = plain is not None and plain >= 0 and plain not in (_INFINITE, _UNSET)
    return {"set": known, "infinite": infinite, "number": plain if known else 0}


def _exit(status: object) -> Record:
    """A wait status (POSIX waitpid) as new versions take it apart."""
    if not isinstance(status, int) or isinstance(status, bool) or status in (_UNSET, _INFINITE):
        return {"status": ["INVALID"], "return_code": number(None), "signal": _signal(0)}
    signal = status & 0x7F
    code = status >> 8 & 0xFF
    word = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {"status": [word], "return_code": number(code), "signal": _signal(signal)}


def _signal(value: int) -> Record:
    return {"id": number(value or None), "name": ""}


def _record_38_to_40(old: Record) -> Record:
    """Words became lists of words, numbers triples, and a wait status came apart."""
    new = dict(old)
    for key in (*_TIMES, *_NUMBERS):
        if key in old:
            new[key] = number(old[key])
    if "job_state" in old:
        new["job_state"] = _words(old["job_state"])
    if "time_limit" in old:
        # Slurm's own null: no limit of the job's, so the partition's (none at all) holds.
        limit = old["time_limit"]
        new["time_limit"] = number(_INFINITE if limit is None else limit)
    for key in ("array_job_id", "array_task_id"):
        if key in old:
            # 0 is the first task; an array job's own id is never 0 and then means: no array.
            new[key] = number(old[key])
    for key in ("exit_code", "derived_exit_code"):
        if key in old:
            new[key] = _exit(old[key])
    if "shared" in old:
        new["shared"] = _words(old["shared"])
    if "job_resources" in old and isinstance(old["job_resources"], dict):
        new["job_resources"] = {"nodes": old["job_resources"].get("nodes", "")}
    return new


def _record_40_to_41(old: Record) -> Record:
    """The list of nodes moved into an object of its own."""
    new = dict(old)
    resources = old.get("job_resources")
    if isinstance(resources, dict) and isinstance(resources.get("nodes"), str):
        new["job_resources"] = {"nodes": {"list": resources["nodes"]}}
    return new


def _record_41_to_42(old: Record) -> Record:
    """``exclusive`` and ``oversubscribe`` are only said in ``shared`` any more."""
    new = {key: value for key, value in old.items() if key not in ("exclusive", "oversubscribe")}
    if "minimum_switches" in new:
        new["required_switches"] = new.pop("minimum_switches")
    return new


RECORDS: Mapping[int, tuple[int, Step]] = {
    38: (40, _record_38_to_40),
    40: (41, _record_40_to_41),
    41: (42, _record_41_to_42),
}
"""From a version to the one after it."""


def _submission_40_to_38(new: Record) -> Record:
    """The other way: lists of words become words, triples numbers, and GRES are named on their own.

    ``nodes`` stays a string: 22.05 documents a list of two numbers, and ignores one.
    """
    old = dict(new)
    for key in ("time_limit", "memory_per_node", "memory_per_cpu", "priority"):
        if key in new:
            old[key] = _plain(new[key])
    old["environment"] = dict(entry.split("=", 1) for entry in new.get("environment", ()))
    if "tres_per_node" in old:
        # Of a tres_per_node slurmctld would never hear: this version has no such field.
        old["gres"] = ",".join(
            part.removeprefix("gres/").removeprefix("gres:")
            for part in old.pop("tres_per_node").split(",")
        )
    if old.get("requeue") is False:
        # It takes requeue, and whatever its value is lets the job be requeued.
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
            raise NotExpressible("22.05 says it takes B:signal and cannot read it")
        delay = _plain(old.pop("kill_warning_delay"))
        old["signal"] = f"{old.pop('kill_warning_signal')}@{delay}"
    return old


def _plain(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return _INFINITE if value.get("infinite") else value.get("number")


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    return [] if value is None else [str(value)]


SUBMISSIONS: Mapping[int, tuple[int, Step]] = {
    42: (41, dict),
    41: (40, dict),
    40: (38, _submission_40_to_38),
}


def lift_record(record: Mapping[str, Any], version: int) -> Record:
    """A job's record of ``version`` as the spoken version has it."""
    return _walk(RECORDS, dict(record), version, max(version, SPOKEN))


def lower_submission(job: Mapping[str, Any], version: int) -> Record:
    """A submission of the spoken version as ``version`` takes it.

    Raises:
        NotExpressible: it cannot.
    """
    return _walk(SUBMISSIONS, dict(job), SPOKEN, min(version, SPOKEN))


def _walk(steps: Mapping[int, tuple[int, Step]], value: Record, start: int, goal: int) -> Record:
    here = start
    while here != goal:
        here, step = steps[here]
        value = step(value)
    return value
