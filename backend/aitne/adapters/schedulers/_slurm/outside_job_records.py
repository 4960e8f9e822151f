"""Records of jobs that were not submitted through the platform, from squeue and sacct. All tasks of
an array become one record.

Names, commands and paths can contain any characters. As in ``queue``, they can only add fields to a
record, which is then ignored because it has too many.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from aitne.adapters.schedulers._slurm import squeue_parser
from aitne.adapters.schedulers._slurm.job_comment import parse_comment, parse_job_name
from aitne.adapters.schedulers._slurm.job_states import job_state
from aitne.adapters.schedulers._slurm.pending_reasons import format_pending_reason
from aitne.adapters.schedulers._slurm.sacct_parser import is_written_off
from aitne.adapters.schedulers._slurm.times import parse_exit, parse_limit, parse_time
from aitne.adapters.slurm_special_values import NO_VAL
from aitne.core.jobs import log_path_pattern
from aitne.core.jobs.array_job_state import SEVERITY
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.ports.outside_jobs import MOST_OF_ACCOUNT, OutsideJob, OutsideLog, OutsideRun
from aitne.core.units import (
    ArrayRange,
    Gres,
    parse_array,
    parse_memory,
    parse_slurm_gres,
    parse_slurm_tres,
)

FIELDS = (
    *("Comment", "JobArrayID", "JobID", "ArrayTaskID", "UserName", "State", "Reason", "NodeList"),
    *("Partition", "PriorityLong", "SubmitTime", "StartTime", "EndTime", "TimeLimit", "exit_code"),
    *("RestartCnt", "Dependency", "Name", "Account", "NumNodes", "NumCPUs", "MinMemory"),
    *("tres-alloc", "tres-per-node", "Command", "WorkDir", "BatchFlag", "STDOUT"),
)
ACCOUNTING_FIELDS = (
    *("JobName", "JobID", "User", "State", "ExitCode", "NodeList", "Submit", "Start", "End"),
    "Reason",
)
_MOST_TEXT = 4_000
_MOST_NAME = 200
_MOST_NODES = 200
_ACTIVE = frozenset({JobState.RUNNING, JobState.STARTING, JobState.COMPLETING})
OF_RUN = frozenset("jJNr")
"""Replacement symbols in log paths (the letters after ``%``) whose values are known only from a
task's own record in squeue or sacct.
"""
_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_TEXT = ("", "(null)", "N/A", "None")


def parse_squeue_record(record: str, fields: Sequence[str]) -> OutsideJob | None:
    """Parse one record of squeue; return None for a job that was submitted through the platform,
    and for an incomplete record.
    """
    values = record.split(squeue_parser.SEPARATOR)
    if len(values) != len(fields):
        return None
    row = dict(zip(fields, values, strict=True))
    submitted_at = parse_time(row["SubmitTime"])
    if submitted_at is None or parse_comment(row["Comment"]) is not None:
        return None
    nodes = squeue_parser.node_names(row["NodeList"])
    code, signal = parse_exit(row.get("exit_code", ""))
    reason = row["Reason"]
    state, termination = job_state((row["State"],), reason, begun=bool(nodes), signal=signal)
    over, waits = state.is_terminal, state is JobState.QUEUED
    begun = bool(nodes) and not waits
    if not (over and begun):
        code = signal = None
    start = parse_time(row["StartTime"])
    count, priority = row.get("RestartCnt", ""), row.get("PriorityLong", "")
    number, underscore, _ = row["JobArrayID"].partition("_")
    tasks = row["ArrayTaskID"] if row["ArrayTaskID"] not in _NO_TEXT else None
    run = OutsideRun(scheduler_id=number, account=row["UserName"], submitted_at=submitted_at)
    is_array = bool(underscore) or tasks is not None
    path = _log_path(row, is_array=is_array, begun=begun)
    return OutsideJob(
        **dict(run),
        name=_clean_text(row["Name"])[:_MOST_NAME] or number,
        state=state,
        reason=termination,
        pending_reason=format_pending_reason(reason, row.get("Dependency", "")) if waits else None,
        restart_count=int(count) if count.isdecimal() else 0,
        exit_code=code,
        signal=signal,
        nodes=nodes[:_MOST_NODES],
        partition=row["Partition"] or None,
        priority=int(priority) if priority.isdecimal() else None,
        started_at=start if begun else None,
        ended_at=parse_time(row["EndTime"]) if over else None,
        expected_start_at=start if waits else None,
        time_limit_s=parse_limit(row["TimeLimit"]),
        charged_account=_clean_text(row["Account"]) or None,
        resources=_parse_resources(row),
        array=tasks if is_array else None,
        tasks={state: _count_tasks(tasks)} if is_array else {},
        command=_clean_text(row["Command"]) or None,
        workdir=_clean_text(row["WorkDir"]) or None,
        log=None if path is None else OutsideLog(**dict(run), path=path),
        raw={name: _clean_text(value) for name, value in row.items()},
    )


def parse_ended_outside_jobs(output: str) -> Iterator[OutsideJob]:
    """Yield the ended jobs in the output of sacct, each task of an array as a separate record."""
    for line in output.splitlines():
        values = line.split(squeue_parser.SEPARATOR)
        if len(values) != len(ACCOUNTING_FIELDS):
            continue
        row = dict(zip(ACCOUNTING_FIELDS, values, strict=True))
        submitted_at, ended_at = parse_time(row["Submit"]), parse_time(row["End"])
        nodes = squeue_parser.node_names(row["NodeList"])
        code, signal = parse_exit(row["ExitCode"])
        state, reason = job_state((row["State"],), row["Reason"], begun=bool(nodes), signal=signal)
        if submitted_at is None or parse_job_name(row["JobName"]) is not None:
            continue
        # A slurmctld that lost a job leaves it running in accounting for ever, or writes it off.
        if not state.is_terminal or ended_at is None or is_written_off(row["State"], row["Reason"]):
            state, ended_at = JobState.UNKNOWN, None
        number, underscore, task = row["JobID"].partition("_")
        yield OutsideJob(
            scheduler_id=number,
            account=row["User"],
            submitted_at=submitted_at,
            name=row["JobName"][:_MOST_NAME] or number,
            state=state,
            reason=reason,
            exit_code=code if nodes else None,
            signal=signal if nodes else None,
            nodes=nodes[:_MOST_NODES],
            started_at=parse_time(row["Start"]) if nodes else None,
            ended_at=ended_at,
            array=task if underscore else None,
            tasks={state: 1} if underscore else {},
        )


def merge_records(records: Iterable[OutsideJob]) -> list[OutsideJob]:
    """Merge records of accounting: return one for each job, from its last run, and one for all
    tasks of an array. An array has an end time only if all of its tasks have ended.
    """
    by_run: dict[tuple[str, str], list[OutsideJob]] = defaultdict(list)
    for record in records:
        by_run[record.scheduler_id, record.account].append(record)
    return [_merge_job_records(of_run) for of_run in by_run.values()]


class OutsideReader:
    """Parser of successive outputs of squeue. For a record that has not changed since the previous
    output it returns the same object.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self._account = self.fields.index("UserName")
        self._known: dict[str, OutsideJob] = {}

    def read(
        self, output: str, mark: str, accounts: Collection[str], *, only: str | None = None
    ) -> list[OutsideJob]:
        """Return the jobs of ``accounts`` in one output of squeue: of each account at most
        ``MOST_OF_ACCOUNT`` live jobs (the oldest) and as many ended ones (the newest). ``mark``
        ends each record. ``only`` is the ID of a single job to return; None: all.

        Only counts and times are kept of an array's tasks, and only returned records are parsed
        completely.
        """
        groups: dict[tuple[str, str], _Group] = {}
        for text in squeue_parser.split_records(output, mark):
            start = text.split(squeue_parser.SEPARATOR, self._account + 1)
            if len(start) <= self._account + 1 or start[self._account] not in accounts:
                continue
            values = text.split(squeue_parser.SEPARATOR)
            if len(values) != len(self.fields) or parse_comment(values[0]) is not None:
                continue
            row = dict(zip(self.fields, values, strict=True))
            key = (row["JobArrayID"].partition("_")[0], row["UserName"])
            if only is not None and key[0] != only:
                continue
            groups.setdefault(key, _Group()).add(text, row)
        known, self._known = self._known, {}
        jobs = []
        for group in _select_most_relevant(groups):
            text = group.representative
            job = known[text] if text in known else parse_squeue_record(text, self.fields)
            if job is not None:
                self._known[text] = job
                jobs.append(group.complete_job(job))
        return jobs


class _Group:
    """Records of one job, or of all tasks of one array, in one output of squeue."""

    __slots__ = ("counts", "ended_at", "nodes", "started_at", "submitted_at", "tasks", "texts")

    def __init__(self) -> None:
        self.counts: Counter[JobState] = Counter()
        self.texts: dict[JobState, str] = {}
        """Text of the first record in each state."""
        self.tasks: list[str] = []
        self.nodes: set[str] = set()
        self.submitted_at: list[datetime] = []
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None

    def add(self, text: str, row: Mapping[str, str]) -> None:
        """Add one record: count it and merge its times and nodes."""
        state, _ = _parse_state(row["State"], row["Reason"])
        tasks = row["ArrayTaskID"]
        is_array = tasks not in _NO_TEXT
        self.counts[state] += _count_tasks(tasks) if is_array else 1
        self.texts.setdefault(state, text)
        if is_array:
            self.tasks.append(tasks)
        if len(self.nodes) < _MOST_NODES:
            self.nodes.add(row["NodeList"])
        submitted_at, start = parse_time(row["SubmitTime"]), parse_time(row["StartTime"])
        if submitted_at is not None:
            first = min([submitted_at, *self.submitted_at])
            self.submitted_at = [first]
        if start is not None and state is not JobState.QUEUED:
            self.started_at = min(start, self.started_at or start)
        if state.is_terminal and (end := parse_time(row["EndTime"])) is not None:
            self.ended_at = max(end, self.ended_at or end)

    @property
    def state(self) -> JobState:
        return state_of_tasks(self.counts) if self.tasks else next(iter(self.counts))

    @property
    def first_submitted_at(self) -> datetime:
        return self.submitted_at[0] if self.submitted_at else _NEVER

    @property
    def representative(self) -> str:
        """Return Slurm's text record of one task in the group's state, which gives the state and
        the pending reason of the whole group.
        """
        return self.texts.get(self.state) or next(iter(self.texts.values()))

    def complete_job(self, job: OutsideJob) -> OutsideJob:
        """Return ``job``, the parsed ``representative``, with the fields replaced that all tasks of
        the group determine, such as nodes and start time.
        """
        if not self.tasks:
            return job
        state = self.state
        names = sorted({name for text in self.nodes for name in squeue_parser.node_names(text)})
        return job.model_copy(
            update={
                "submitted_at": self.first_submitted_at,
                "state": state,
                "nodes": tuple(names[:_MOST_NODES]),
                "started_at": self.started_at,
                "ended_at": self.ended_at if state.is_terminal else None,
                "array": _merge_indices(self.tasks),
                "tasks": {state: self.counts[state] for state in sorted(self.counts)},
            }
        )


def _select_most_relevant(groups: Mapping[tuple[str, str], _Group]) -> Iterator[_Group]:
    live: dict[str, list[_Group]] = defaultdict(list)
    ended: dict[str, list[_Group]] = defaultdict(list)
    for (_, account), group in groups.items():
        (ended if group.state.is_terminal else live)[account].append(group)
    for of_account in live.values():
        yield from sorted(of_account, key=lambda group: group.first_submitted_at)[:MOST_OF_ACCOUNT]
    for of_account in ended.values():
        newest = sorted(
            of_account, key=lambda group: group.ended_at or group.first_submitted_at, reverse=True
        )
        yield from newest[:MOST_OF_ACCOUNT]


def _merge_job_records(records: list[OutsideJob]) -> OutsideJob:
    last = max(records, key=lambda record: record.submitted_at)
    if not last.tasks:
        return last
    counts: Counter[JobState] = Counter()
    for record in records:
        counts.update(record.tasks)
    state = state_of_tasks(counts)
    shown = next((record for record in records if record.state is state), last)
    starts = [record.started_at for record in records if record.started_at is not None]
    ends = [record.ended_at for record in records if record.ended_at is not None]
    return shown.model_copy(
        update={
            "submitted_at": min(record.submitted_at for record in records),
            "state": state,
            "started_at": min(starts, default=None),
            "ended_at": max(ends, default=None),
            "array": None,
            "tasks": {state: counts[state] for state in sorted(counts)},
        }
    )


def state_of_tasks(counts: Collection[JobState]) -> JobState:
    """Return the state of an array whose tasks have the states in ``counts``: running if any task
    is active, else the first of suspended, queued and unknown that a task has. If all have ended,
    it is the most severe of their final states.
    """
    if not _ACTIVE.isdisjoint(counts):
        return JobState.RUNNING
    for state in (JobState.SUSPENDED, JobState.QUEUED, JobState.UNKNOWN):
        if state in counts:
            return state
    return max(counts, key=SEVERITY.index)


@lru_cache(maxsize=1_024)
def _parse_state(word: str, reason: str) -> tuple[JobState, TerminationReason | None]:
    return job_state((word,), reason)


def _merge_indices(texts: Sequence[str]) -> str:
    """Return the indices of all records as one text, truncated to its maximum length."""
    if len(texts) == 1:
        return texts[0][:_MOST_TEXT]
    try:
        ranges = ArrayRange.from_indices(
            {index for text in texts for index in parse_array(text).indices}
        )
    except ValueError:  # more tasks than an array of the platform can have
        return texts[0][:_MOST_TEXT]
    return str(ranges)[:_MOST_TEXT]


def _count_tasks(tasks: str | None) -> int:
    """Return the number of tasks in a text such as ``0-99999:2,7%5``. Ranges are counted without
    listing their indices.
    """
    if tasks is None:
        return 1
    number = 0
    for piece in tasks.partition("%")[0].split(","):
        ends, _, step = piece.partition(":")
        first, dash, last = ends.partition("-")
        try:
            span = int(last) - int(first) if dash else 0
            number += span // (int(step) if step else 1) + 1
        except (ValueError, ZeroDivisionError):
            number += 1
    return max(number, 1)


def _parse_resources(row: Mapping[str, str]) -> Resources:
    nodes = max(1, _parse_integer(row["NumNodes"].partition("-")[0]))
    allocated = row.get("tres-alloc", "")
    gpu = _count_gpus(parse_slurm_tres(allocated))
    per_node = math.ceil(gpu.count / nodes)
    memory = next((part[4:] for part in allocated.split(",") if part.startswith("mem=")), None)
    memory_bytes = (
        _parse_memory_bytes(memory) // nodes if memory else _parse_memory_bytes(row["MinMemory"])
    )
    if not per_node:
        gpu = _count_gpus(parse_slurm_gres(row.get("tres-per-node", "")))
        per_node = gpu.count
    return Resources(
        nodes=nodes,
        cpu=max(1, math.ceil(_parse_integer(row["NumCPUs"]) / nodes)),
        memory_bytes=memory_bytes,
        gpu=GpuRequest(count=min(per_node, 1_024), type=gpu.type if per_node else None),
        gres={},
    )


def _count_gpus(resources: Iterable[Gres]) -> Gres:
    """Return the number of GPUs, with their type if all have the same one.

    Slurm names the GPUs of each type, all GPUs together, or both.
    """
    counts: Counter[str | None] = Counter()
    for gres in resources:
        if gres.kind == "gpu":
            counts[gres.type] += gres.count
    untyped = counts.pop(None, 0)
    total = max(untyped, counts.total())
    types = [kind for kind, count in counts.items() if kind and count == total]
    return Gres("gpu", types[0] if len(types) == 1 else None, total)


def _parse_memory_bytes(text: str) -> int:
    try:
        return parse_memory(text.removesuffix("n").removesuffix("c"))
    except ValueError:
        return 0


def _parse_integer(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


def _log_path(row: Mapping[str, str], *, is_array: bool, begun: bool) -> str | None:
    """Return the path of the job's log, or for an array the pattern of its tasks' logs; None if
    there is none, or while the job's node, which the path contains, is not known.
    """
    path, workdir = _clean_text(row["STDOUT"]), _clean_text(row["WorkDir"])
    # Of salloc and srun squeue up to 23.11 names a file that they do not write.
    if path in ("", "/dev/null") or row["BatchFlag"] == "0":
        return None
    if is_array and path == f"{workdir}/slurm-{row['JobID']}.out":  # as squeue up to 23.11 has it
        path = "slurm-%A_%a.out"
    pattern = log_path_pattern.remove_backslashes(path)
    if not path.startswith("/"):
        pattern = f"{workdir.replace('%', '%%')}/{pattern}"
    number = _parse_integer(row["JobArrayID"].partition("_")[0])
    values: dict[str, int | str] = {"A": number, "u": row["UserName"], "x": row["Name"]}
    pattern = log_path_pattern.fill_wildcards(pattern, values | {"s": "batch", "n": 0, "t": 0})
    if not is_array:
        restarts = _parse_integer(row.get("RestartCnt", ""))
        values = {"j": number, "J": number, "a": NO_VAL, "b": NO_VAL % 10, "r": restarts}
        if begun:
            values["N"] = squeue_parser.node_names(row["NodeList"])[0]
        elif "N" in log_path_pattern.list_wildcards(pattern):
            return None
        pattern = log_path_pattern.make_log_path(pattern, values)
    return pattern if pattern.startswith("/") and pattern.isprintable() else None


def log_of_task(pattern: str, index: int, run: Mapping[str, str] | None = None) -> str | None:
    """Return the path of an array task's log: the array's log path ``pattern`` with Slurm's
    replacement symbols (``%A``, ``%a``, ``%N`` and others) replaced by their values. None if the
    task in ``run`` has no node yet.

    ``index`` is the task's index in the array. ``run`` is the task's record in the output of squeue
    or sacct, with the fields of ``queue.FIELDS``; without it, ``pattern`` must not contain the
    symbols in ``OF_RUN``.
    """
    values: dict[str, int | str] = {"a": index, "b": index % 10}
    if run is not None:
        nodes = squeue_parser.node_names(run["NodeList"])
        if not nodes:
            return None
        number = _parse_integer(run["JobID"])
        values |= {"j": number, "J": number, "N": nodes[0]}
        values["r"] = _parse_integer(run.get("RestartCnt", ""))
    return log_path_pattern.make_log_path(pattern, values)


def _clean_text(value: str) -> str:
    """Return the value without unprintable characters; an empty text for the words that Slurm
    prints for a missing value.
    """
    if value in _NO_TEXT:
        return ""
    return "".join(char if char.isprintable() else "?" for char in value[:_MOST_TEXT])
