"""Conversion of sbatch's options to the JSON of a submission by REST (v0.0.42).

Both ways to submit use the same options and so stay consistent. A job with an option that cannot be
expressed in JSON is submitted by sbatch.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aitne.adapters.schedulers._slurm.sbatch_arguments import UNLIMITED
from aitne.core.units import parse_duration
from aitne_train.topology.hostlist import expand_hostlist

Fields = dict[str, Any]

_SIGNAL = re.compile(r"(?:(?P<to>[BR]+):)?(?P<signal>[A-Z0-9]+)(?:@(?P<delay>[0-9]+))?")
_SIGNALS = frozenset(
    [
        "HUP",
        "INT",
        "QUIT",
        "ABRT",
        "KILL",
        "ALRM",
        "TERM",
        "USR1",
        "USR2",
        "URG",
        "CONT",
        "STOP",
        "TSTP",
        "TTIN",
        "TTOU",
    ]
)
"""Signal names that sbatch accepts. slurmrestd accepts any name, but a signal with an unknown one
is never sent.
"""
_MEMORY = re.compile(r"([0-9]+)([KMGT]?)")
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_DEFAULT_SIGNAL_DELAY_S = 60


class _NoField(Exception):
    """Error: an option's value has no equivalent in the JSON."""


def to_number_object(value: int) -> Fields:
    """Return the object with which the API represents a number, since a number in it can also be
    unset or infinite.
    """
    return {"set": True, "infinite": False, "number": value}


def _make_text_converter(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: value}


def _make_integer_converter(field: str) -> Callable[[str], Fields]:
    def convert(value: str) -> Fields:
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            raise _NoField
        return {field: int(value)}

    return convert


def _make_flag_converter(field: str, value: Any) -> Callable[[str], Fields]:
    def convert(argument: str) -> Fields:
        if argument:
            raise _NoField
        return {field: value}

    return convert


def _make_duration_converter(field: str) -> Callable[[str], Fields]:
    def convert(value: str) -> Fields:
        if value == UNLIMITED:
            return {field: {"set": True, "infinite": True, "number": 0}}
        # As in sbatch: a part of a minute is rounded up.
        return {field: to_number_object(-(-parse_duration(value) // 60))}

    return convert


def _convert_memory(value: str) -> Fields:
    match = _MEMORY.fullmatch(value)
    if match is None:
        raise _NoField
    return {"memory_per_node": to_number_object(int(-(-int(match[1]) * _MIB[match[2]] // 1)))}


def _convert_gres(value: str) -> Fields:
    return {"tres_per_node": ",".join(f"gres/{part}" for part in value.split(","))}


def _make_hosts_converter(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: expand_hostlist(value)}


def _convert_switches(value: str) -> Fields:
    count, _, wait = value.partition("@")
    if not re.fullmatch(r"[0-9]{1,6}", count):
        raise _NoField
    fields: Fields = {"required_switches": to_number_object(int(count))}
    return fields | ({"wait_for_switch": parse_duration(wait)} if wait else {})


def _convert_nodes(value: str) -> Fields:
    if not re.fullmatch(r"[0-9]{1,6}(-[0-9]{1,6})?", value):
        raise _NoField
    return {"nodes": value}


def _convert_signal(value: str) -> Fields:
    match = _SIGNAL.fullmatch(value)
    if match is None or match["to"] not in (None, "B"):
        raise _NoField
    if not match["signal"].isdecimal() and match["signal"].removeprefix("SIG") not in _SIGNALS:
        raise _NoField
    delay = int(match["delay"] or _DEFAULT_SIGNAL_DELAY_S)
    fields: Fields = {
        "kill_warning_signal": match["signal"],
        "kill_warning_delay": to_number_object(delay),
    }
    if match["to"]:
        fields["kill_warning_flags"] = ["BATCH_JOB"]
    return fields


def _convert_begin(value: str) -> Fields:
    match = re.fullmatch(r"uts([0-9]{1,15})", value)
    if match is None:
        raise _NoField
    return {"begin_time": to_number_object(int(match[1]))}


def _convert_exclusive(value: str) -> Fields:
    # Without a value: no other job on its nodes; user and mcs have other meanings.
    if value:
        raise _NoField
    return {"shared": ["none"]}


def _open_mode(value: str) -> Fields:
    return {"open_mode": [value.upper()]}


def _kill_invalid(value: str) -> Fields:
    if value != "yes":
        raise _NoField
    return {"flags": ["KILL_INVALID_DEPENDENCY"]}


def _no_limits(value: str) -> Fields:
    # A submission by REST never contains the resource limits of the submitting process.
    if value != "NONE":
        raise _NoField
    return {}


_FIELDS: Mapping[str, Callable[[str], Fields]] = {
    "account": _make_text_converter("account"),
    "array": _make_text_converter("array"),
    "begin": _convert_begin,
    "chdir": _make_text_converter("current_working_directory"),
    "comment": _make_text_converter("comment"),
    "constraint": _make_text_converter("constraints"),
    "cpus-per-task": _make_integer_converter("cpus_per_task"),
    "dependency": _make_text_converter("dependency"),
    "error": _make_text_converter("standard_error"),
    "exclude": _make_hosts_converter("excluded_nodes"),
    "exclusive": _convert_exclusive,
    "gpus-per-node": lambda value: _convert_gres(f"gpu:{value}"),
    "gres": _convert_gres,
    "hold": _make_flag_converter("hold", True),
    "input": _make_text_converter("standard_input"),
    "job-name": _make_text_converter("name"),
    "kill-on-invalid-dep": _kill_invalid,
    "licenses": _make_text_converter("licenses"),
    "mem": _convert_memory,
    "nice": _make_integer_converter("nice"),
    "no-kill": _make_flag_converter("kill_on_node_fail", False),
    "no-requeue": _make_flag_converter("requeue", False),
    "nodelist": _make_hosts_converter("required_nodes"),
    "nodes": _convert_nodes,
    "ntasks": _make_integer_converter("tasks"),
    "ntasks-per-node": _make_integer_converter("tasks_per_node"),
    "open-mode": _open_mode,
    "output": _make_text_converter("standard_output"),
    "partition": _make_text_converter("partition"),
    "prefer": _make_text_converter("prefer"),
    "propagate": _no_limits,
    "qos": _make_text_converter("qos"),
    "requeue": _make_flag_converter("requeue", True),
    "reservation": _make_text_converter("reservation"),
    "signal": _convert_signal,
    "switches": _convert_switches,
    "time": _make_duration_converter("time_limit"),
    "time-min": _make_duration_converter("time_minimum"),
    "wckey": _make_text_converter("wckey"),
}
_SAYS_HOW = frozenset({"parsable", "export"})
"""Options that affect sbatch itself and not the job; the caller of ``make_submission`` implements them."""


def make_submission(options: Sequence[str], environment: Mapping[str, str]) -> Fields | None:
    """Convert sbatch's options, such as ``["--nodes=2", …]``, to the fields of ``job`` in a
    submission by REST; None if only sbatch can express them.
    """
    job: Fields = {}
    values: dict[str, str] = {}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        values[name] = value
        if name in _SAYS_HOW:
            continue
        convert = _FIELDS.get(name)
        if convert is None:
            return None
        try:
            fields = convert(value)
            if name == "gres" and "tres_per_node" in job:  # of --gpus-per-node
                fields["tres_per_node"] = f"{job['tres_per_node']},{fields['tres_per_node']}"
            job |= fields
        except (_NoField, ValueError):
            return None
    job |= _count_tasks_and_cpus(job)
    # Variables that sbatch sets: srun and the job's programs read them.
    variables = {
        "SLURM_GPUS_PER_NODE": values.get("gpus-per-node"),
        "SLURM_CPUS_PER_TASK": job.get("cpus_per_task"),
        "SLURM_TRES_PER_TASK": job.get("tres_per_task"),
        "SLURM_JOB_DEPENDENCY": job.get("dependency"),
        "SLURM_NTASKS_PER_NODE": job.get("tasks_per_node"),
        "SLURM_SUBMIT_DIR": job.get("current_working_directory"),
        "SLURM_SUBMIT_HOST": socket.gethostname(),
        "SLURM_PRIO_PROCESS": 0,
    }
    variables = {key: value for key, value in variables.items() if value is not None}
    both = {**environment, **variables}
    return job | {"environment": [f"{key}={value}" for key, value in both.items()]}


def _count_tasks_and_cpus(job: Fields) -> Fields:
    """Return the fields about tasks and CPUs that sbatch computes from its options."""
    nodes = int(job["nodes"]) if job.get("nodes", "").isdecimal() else None
    fields: Fields = {}
    tasks = job.get("tasks")
    if tasks is None and nodes is not None and "tasks_per_node" in job:
        tasks = fields["tasks"] = nodes * job["tasks_per_node"]
    cpus = job.get("cpus_per_task")
    if cpus is not None:
        fields["tres_per_task"] = f"cpu={cpus}"
    if cpus is not None or tasks is not None:
        # Of a waiting job, Slurm shows and limits these.
        fields["minimum_cpus"] = (tasks or nodes or 1) * (cpus or 1)
    return fields
