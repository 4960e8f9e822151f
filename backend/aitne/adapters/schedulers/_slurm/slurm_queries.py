"""Queries of one Slurm cluster with its commands: configuration, queue, accounting and nodes."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from aitne.adapters.schedulers._slurm import (
    job_comment,
    sacct_parser,
    scontrol_parser,
    squeue_parser,
)
from aitne.adapters.schedulers._slurm.commands import Commands
from aitne.adapters.schedulers._slurm.partition_limit_check import ClusterLimits
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster
from aitne.core.ports.command import Command
from aitne.core.ports.scheduler import Run, SchedulerJob
from aitne.core.settings import Settings

log = logging.getLogger(__name__)

_MARGIN_S = 5.0
"""Seconds by which a command's timeout exceeds Slurm's MessageTimeout, so that the command can
report its own failure.
"""
_ACCOUNTING_TIMEOUT_S = 60.0
_CANCELLER_TIMEOUT_S = 5.0
"""Timeout in seconds of the query for the account that cancelled a job; it is short because a poll
may have to wait for it.
"""
_NAMES_AT_ONCE = 500
"""Maximum number of job names in one argument: a name has about 50 bytes, an argument at most 128
KiB.
"""
_LOOK_BACK = "now-30days"
"""Start of the time range for queries by sacct, whose default is the current day only."""
_CONFIG_S = 60.0
"""Seconds after which the configuration is read again from slurmctld."""
_LIMITS_S = 30.0
_QOS_S = 60.0
_AFTER_TROUBLE_S = 2.0
_NO_SUCH_FIELD = re.compile(r"Invalid job format specification: (\S+)")

_Key = tuple[UUID, int, int | None]
QosFlags = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    limits: ClusterLimits
    at: float


class Site:
    """Queries of one Slurm cluster with its commands, under the account with which the platform
    reads the queue. They change nothing in Slurm.

    Every method may raise ``SchedulerUnavailable``.
    """

    def __init__(self, settings: Settings, command: Command) -> None:
        self.commands = Commands(settings, command)
        # Without a broker every job of the platform runs under this account. Other users can write
        # the platform's comment into their own jobs: those are not even read.
        self._mine = f"--user={os.geteuid()}" if command.alone else None
        self._cluster_name = settings.cluster
        self._fields: tuple[str, ...] = squeue_parser.FIELDS
        self._unknown_fields: frozenset[str] = frozenset()
        """Fields that the squeue of this Slurm release does not have."""
        self._queue = squeue_parser.SqueueReader(self._fields)
        self._config: SlurmConfig | None = None
        self._config_at = 0.0
        self._snapshot: _Snapshot | None = None
        self._qos: tuple[float, QosFlags | None] | None = None
        self._trouble_at: float | None = None

    @property
    def timeout_s(self) -> float:
        """Return the seconds after which a command is terminated."""
        return (self._config or SlurmConfig()).message_timeout_s + _MARGIN_S

    @property
    def settle_s(self) -> float:
        """Return the seconds after a failed sbatch during which slurmctld may still process its
        request.
        """
        return 2 * (self._config or SlurmConfig()).message_timeout_s + _MARGIN_S

    def record_no_answer(self) -> None:
        """Record that Slurm did not answer at the current time."""
        self._trouble_at = time.monotonic()

    async def run_query(self, *argv: str, timeout_s: float | None = None) -> str:
        """Run a query under the account that reads the queue; return its output."""
        try:
            return await self.commands.run_query(*argv, timeout_s=timeout_s or self.timeout_s)
        except SchedulerUnavailable:
            self.record_no_answer()
            raise

    async def config(self) -> SlurmConfig:
        """Return the site's configuration, read at most ``_CONFIG_S`` seconds ago unless Slurm does
        not answer.
        """
        now = time.monotonic()
        if self._config is None or now - self._config_at > _CONFIG_S:
            try:
                self._config = SlurmConfig.parse(await self.run_query("scontrol", "show", "config"))
            except SchedulerUnavailable:
                if self._config is None:
                    raise
            self._config_at = now
        return self._config

    # --- jobs ------------------------------------------------------------------------------------

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the platform's jobs that slurmctld holds, by one squeue. Ended jobs are included
        for MinJobAge seconds after their end.
        """
        output, mark = await self._run_squeue_for_poll()
        return self._queue.read(output, mark)

    async def _run_squeue_for_poll(self, *more: str) -> tuple[str, str]:
        """Run squeue with the fields of the poll and the options ``more``; return its output and
        the mark at the end of each record. Unless ``more`` contains ``--array``, the pending tasks
        of an array share one record.
        """
        output, mark, fields = await self.squeue(self._fields, *more)
        if fields != self._fields:
            self._fields = fields
            self._queue = squeue_parser.SqueueReader(fields)
        return output, mark

    async def squeue(self, fields: tuple[str, ...], *more: str) -> tuple[str, str, tuple[str, ...]]:
        """Run squeue with those of ``fields`` that this Slurm release has; return its output, the
        mark at the end of each record, and the fields.
        """
        fields = tuple(field for field in fields if field not in self._unknown_fields)
        scope = () if self._mine is None else (self._mine,)
        options = ("--noheader", "--states=all", *scope, *more)
        while True:
            mark = squeue_parser.new_mark()
            argv = ("squeue", *options, f"--Format={squeue_parser.format_option(fields, mark)}")
            try:
                return await self.run_query(*argv), mark, fields
            except SchedulerUnavailable as error:
                unknown = _NO_SUCH_FIELD.search(error.message)
                missing = {
                    field
                    for field in fields
                    if unknown is not None and field.lower() == unknown[1].lower()
                }
                if not missing or not missing <= squeue_parser.OPTIONAL:
                    raise
                self._unknown_fields |= missing
                fields = tuple(field for field in fields if field not in missing)

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts, found by job name: first in the queue, then in
        accounting for those that are not in the queue.
        """
        jobs: list[SchedulerJob] = []
        for start in range(0, len(runs), _NAMES_AT_ONCE):
            jobs += await self._find_records_of_batch(runs[start : start + _NAMES_AT_ONCE])
        return jobs

    async def _find_records_of_batch(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        rows = await self.list_live_records(runs)
        missing = _list_missing_runs(runs, rows)
        since = None if self._trouble_at is None else time.monotonic() - self._trouble_at
        if missing and since is not None and since < self.settle_s:
            # When slurmctld resumes, it may process an earlier submission after this query.
            await asyncio.sleep(_AFTER_TROUBLE_S)
            rows = [*rows, *await self.list_live_records(missing)]
            missing = _list_missing_runs(runs, rows)
        if missing and (await self.config()).accounting:
            # For tasks that slurmctld still holds, its own records are used.
            live_keys = {_make_record_key(row) for row in rows}
            ended_rows = [
                row
                for row in await self.list_ended_records(missing)
                if _make_record_key(row) not in live_keys
            ]
            rows = [*rows, *ended_rows]
        return await self._add_cancellers(runs, rows)

    async def _add_cancellers(
        self, runs: Sequence[Run], rows: Sequence[SchedulerJob]
    ) -> Sequence[SchedulerJob]:
        """Add to each cancelled job the account that cancelled it. Only accounting has this
        information, possibly a moment later.
        """
        uids = _get_canceller_uids(rows)
        cancelled = {
            (row.job_id, row.attempt)
            for row in rows
            if row.state is JobState.CANCELLED and _make_record_key(row) not in uids
        }
        which = [run for run in runs if (run.job_id, run.attempt) in cancelled]
        if which and (await self.config()).accounting:
            try:
                uids |= _get_canceller_uids(
                    await self.list_ended_records(which, timeout_s=_CANCELLER_TIMEOUT_S)
                )
            except SchedulerUnavailable as error:
                log.warning("Accounting does not report who cancelled jobs: %s", error.message)
        names = await asyncio.to_thread(_get_account_names, set(uids.values()))
        return [
            row.model_copy(update={"pending_reason": f"Cancelled in Slurm by {names[uid]}."})
            if row.state is JobState.CANCELLED
            and (uid := uids.get(_make_record_key(row))) is not None
            else row
            for row in rows
        ]

    async def list_live_records(
        self, runs: Sequence[Run], *, single_tasks: bool = True
    ) -> Sequence[SchedulerJob]:
        """Return slurmctld's records of these attempts, whatever their job IDs.

        With ``single_tasks`` each task of an array has its own record.
        """
        scope = ("--array",) if single_tasks else ()
        output, mark = await self._run_squeue_for_poll(*scope, f"--name={_join_job_names(runs)}")
        read = (
            squeue_parser.parse_record(text, self._fields)
            for text in squeue_parser.split_records(output, mark)
        )
        attempts = {(run.job_id, run.attempt) for run in runs}
        return [row for row in read if row is not None and (row.job_id, row.attempt) in attempts]

    async def list_ended_records(
        self, runs: Sequence[Run], *, timeout_s: float = _ACCOUNTING_TIMEOUT_S
    ) -> Sequence[SchedulerJob]:
        """Return accounting's records of the attempts in ``runs`` that have ended."""
        output = await self.run_query(
            "sacct",
            self._mine or "--allusers",
            "--allocations",
            "--duplicates",
            "--noheader",
            "--parsable2",
            f"--delimiter={squeue_parser.SEPARATOR}",
            f"--starttime={_LOOK_BACK}",
            f"--name={_join_job_names(runs)}",
            f"--format={','.join(sacct_parser.FIELDS)}",
            timeout_s=timeout_s,
        )
        return sacct_parser.parse_ended_jobs(output)

    # --- the cluster -----------------------------------------------------------------------------

    async def cluster(self) -> Cluster:
        """Return nodes, partitions and reservations from slurmctld, and the names of QOS from
        accounting.
        """
        config = await self.config()
        show = ("scontrol", "--details", "--oneliner", "show")
        said_nodes, said_partitions, said_reservations, qos = await asyncio.gather(
            self.run_query(*show, "node"),
            self.run_query(*show, "partition"),
            self.run_query(*show, "reservation"),
            self._qos_flags(config),
        )
        now = datetime.now(UTC)
        cluster = Cluster(
            nodes=scontrol_parser.parse_nodes(said_nodes, self._cluster_name, now),
            partitions=scontrol_parser.parse_partitions(said_partitions, config.default_amounts),
            qos=tuple(sorted(qos or ())),
            reservations=scontrol_parser.parse_reservations(said_reservations),
            max_array_size=config.max_array_size,
            max_jobs=config.max_jobs,
            max_switch_wait_s=config.max_switch_wait_s,
            memory_held_by=config.memory_held_by,
            cpus_held_by=config.cpus_held_by,
            started_at=config.started_at,
            seen_at=now,
        )
        self._snapshot = _Snapshot(ClusterLimits(cluster, qos), time.monotonic())
        return cluster

    async def topology(self) -> str:
        """Return the output of ``scontrol show topology``, which is empty without a topology."""
        completed = await self.commands.run(
            "scontrol", "show", "topology", timeout_s=self.timeout_s
        )
        # If slurmctld does not answer, scontrol says so and exits with 0 all the same.
        if completed.returncode != 0 or b"slurm_load_topo error" in completed.stderr:
            self.record_no_answer()
            raise SchedulerUnavailable(f"scontrol failed: {completed.output_text}")
        return completed.stdout.decode("utf-8", "replace")

    async def limits(self) -> ClusterLimits:
        """Return the limits of partitions and nodes, read at most half a minute ago."""
        while self._snapshot is None or time.monotonic() - self._snapshot.at > _LIMITS_S:
            await self.cluster()
        return self._snapshot.limits

    async def has_node(self, name: str) -> bool:
        """Return True if a node of exactly this name exists. If the name is unknown, the nodes are
        queried again.
        """
        if name in (await self.limits()).nodes:
            return True
        return any(node.name == name for node in (await self.cluster()).nodes)

    async def _qos_flags(self, config: SlurmConfig) -> QosFlags | None:
        """Return the flags of every QOS, by name; None if slurmdbd does not answer, in which case
        jobs can still be submitted.
        """
        if not config.accounting:
            return {}
        if self._qos is not None and time.monotonic() - self._qos[0] < _QOS_S:
            return self._qos[1]
        flags: QosFlags | None
        try:
            output = await self.run_query("sacctmgr", "-nP", "show", "qos", "format=name,flags")
            pairs = (line.partition("|") for line in output.splitlines())
            flags = {name: frozenset(words.split(",")) - {""} for name, _, words in pairs if name}
        except SchedulerUnavailable:
            flags = None if self._qos is None else self._qos[1]
        self._qos = (time.monotonic(), flags)
        return flags


def _join_job_names(runs: Sequence[Run]) -> str:
    names = (job_comment.make_job_name(run.job_id, run.attempt) for run in runs)
    return ",".join(dict.fromkeys(names))  # the tasks of an array share one name


def _get_canceller_uids(rows: Iterable[SchedulerJob]) -> dict[_Key, int]:
    """Return the uid of the account that cancelled each job, from accounting's records; jobs that
    no account cancelled are omitted.
    """
    return {
        _make_record_key(row): uid
        for row in rows
        if (uid := sacct_parser.parse_canceller_uid(row)) is not None
    }


def _get_account_names(uids: Collection[int]) -> Mapping[int, str]:
    """Return the account name of each uid on this machine, or ``uid N`` if there is none."""
    names = {}
    for uid in uids:
        try:
            names[uid] = pwd.getpwuid(uid).pw_name
        except (KeyError, OverflowError):
            names[uid] = f"uid {uid}"
    return names


def _make_record_key(row: SchedulerJob) -> _Key:
    return row.job_id, row.attempt, row.array_task_id


def _list_missing_runs(runs: Sequence[Run], rows: Sequence[SchedulerJob]) -> list[Run]:
    """Return the attempts that have no record among ``rows``. An attempt at one task of an array
    needs a record of that task.
    """
    there: set[tuple[UUID, int, str]] = set()
    for row in rows:
        task = "" if row.array_task_id is None else str(row.array_task_id)
        there |= {(row.job_id, row.attempt, ""), (row.job_id, row.attempt, task)}
    tasks = ((run.scheduler_id or "").partition("_")[2] for run in runs)
    return [
        run
        for run, task in zip(runs, tasks, strict=True)
        if (run.job_id, run.attempt, task) not in there
    ]
