"""Records of jobs as ``scontrol -o show job`` prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.slurm import run_as

Record = Mapping[str, str]

_FIELD = re.compile(r"\s+(?=[A-Z][A-Za-z:/]*=)")
_OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "TIMEOUT"}
)
ASPECTS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("NumNodes", "ReqNodeList", "ExcNodeList", "Features", "OverSubscribe"),
    "tasks": ("NumTasks", "NumCPUs", "CPUs/Task", "NtasksPerN:B:S:C", "TresPerTask"),
    "memory": ("MinMemoryNode", "MinMemoryCPU", "MemPerTres"),
    "total": ("TRES", "AllocTRES"),
    "gpus": ("TRES.gres", "TresPerJob", "TresPerNode", "Licenses"),
    "limit": ("TimeLimit", "TimeMin"),
    "requeue": ("Requeue", "Restarts"),
    "queue": ("Partition", "QOS", "Account", "Reservation", "Nice"),
    "command": ("Command",),
}
"""Fields of a record that are compared, by what they are about."""


def read_records(cluster: DevCluster) -> dict[str, Record]:
    """Return the records of all jobs and tasks that slurmctld holds, by their JobID."""
    text = run_as(cluster, "root", "scontrol", "-o", "show", "job")
    records = [parse_record(line) for line in text.splitlines() if line.startswith("JobId=")]
    return {record["JobId"]: record for record in records}


def parse_record(line: str) -> Record:
    """Return the fields of one record: ``TRES`` is what a job requests, or with Slurm 22.05 has got, and
    ``TRES.gres`` the GRES of it.
    """
    fields: dict[str, str] = {}
    for part in _FIELD.split(line.strip()):
        name, _, value = part.partition("=")
        fields.setdefault("TRES" if name == "ReqTRES" else name, value)
    amounts = [part for part in fields.get("TRES", "").split(",") if "=" in part]
    fields["TRES.gres"] = ",".join(one for one in amounts if one.startswith("gres/"))
    return fields


def of_job(records: Mapping[str, Record], number: str) -> list[Record]:
    """Return the records of a job: of an array those of its tasks."""
    return [
        record
        for record in records.values()
        if number in (record["JobId"], record.get("ArrayJobId"))
    ]


def has_ended(records: Iterable[Record]) -> bool:
    """Return whether there are records, all of jobs that have ended."""
    states = [record["JobState"] for record in records]
    return bool(states) and all(state in _OVER for state in states)


def ends(records: Iterable[Record]) -> list[str]:
    """Return how the tasks of a job have ended, in the platform's words: state and exit code, which
    for an end by a signal is that of a shell.
    """
    words = {"TIMEOUT": "TIMED_OUT", "NODE_FAIL": "NODE_FAILED"}
    return sorted(
        f"{words.get(record['JobState'], record['JobState'])} {_code(record['ExitCode'])}"
        for record in records
    )


def _code(text: str) -> int:
    code, _, signal = text.partition(":")
    return 128 + int(signal) if int(signal or 0) else int(code)


def values(records: Iterable[Record], aspect: str) -> list[str]:
    """Return the values of an aspect, such as ``NumNodes=2``, of all tasks without repetition."""
    seen = {
        f"{name}={record[name]}"
        for record in records
        for name in ASPECTS[aspect]
        if record.get(name) not in (None, "", "(null)")
    }
    return sorted(seen)
