"""Changes of a job's database row that follow from a record of the scheduler.

Has no side effects: nothing is queried or written here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from aitne.core.jobs.agent_protocol import (
    EXIT_ENVIRONMENT,
    EXIT_LOG_FULL,
    EXIT_NEVER_ANSWERED,
    EXIT_NOT_READY,
    EXIT_OUT_OF_MEMORY,
    EXIT_PREEMPTED,
)
from aitne.core.jobs.states import STATE_OF_REASON, JobState, TerminationReason
from aitne.core.models.cluster import Cluster, NodeState
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.ports.job_files import ProgramOutcome
from aitne.core.ports.scheduler import SchedulerJob
from aitne.services.controller.excluded_nodes import is_agent_killed
from aitne.services.jobs.job_renderer import max_requeues

_INTERNAL_CODES = frozenset(
    {
        EXIT_ENVIRONMENT,
        EXIT_LOG_FULL,
        EXIT_NEVER_ANSWERED,
        EXIT_NOT_READY,
        EXIT_OUT_OF_MEMORY,
    }
)
"""Exit codes that have a meaning between agent and platform only; users see the termination reason
instead.
"""
_AGENTS_CODES = _INTERNAL_CODES | {126, 127, EXIT_PREEMPTED}
_LAUNCHERS_CODES = frozenset({125, 137, 255})
"""Exit codes with which container runtimes themselves end, for example when a container exceeds its
memory limit.
"""
_AGENTS_REASONS = (
    TerminationReason.START_FAILED,
    TerminationReason.OUT_OF_MEMORY,
    TerminationReason.FAILED,
    TerminationReason.NODE_FAILED,
)
_CANCELLED = "Cancelled in the scheduler, not through the platform."
_BY_WHOM = re.compile(r" \[[^\]]*\]$")
"""Suffix that Slurm appends to a node's reason: the account that set it, and the time."""
_UNUSABLE = frozenset({NodeState.DOWN, NodeState.DRAINED, NodeState.DRAINING})
SILENT_AGENT_S = 15.0
"""Seconds after which a batch job whose agent has not reported counts as running."""
START_TIMEOUT = timedelta(seconds=120)
"""Time after the allocation after which a session whose agent has not reported counts as failed."""
_OF_ONE_RUN = (
    *("allocated_at", "started_at", "ready_at", "expires_at", "address", "url"),
    *("idle_ends_at", "gpu_idle_since"),
)
"""Fields that are reset when the scheduler starts the job again."""
EXPECTED_START_NOISE = timedelta(seconds=30)
END_NOISE = timedelta(seconds=5)
EXPECTED_START_PART = 0.2
"""Minimum change of an expected start that is stored, as a fraction of the time left until that
start.
"""
_TOO_LATE = (
    "A start is expected only after its session ends, which cancels it: extend the session, or "
    "request less."
)
PRIORITY_NOISE = 0.1
"""Minimum relative change of a priority that is stored if nothing else has changed."""


def needs_agent_outcome(job: Job, record: SchedulerJob) -> bool:
    """Return whether the agent's outcome file must be read to learn why a run ended that the
    scheduler's record shows as ended.
    """
    if record.state is JobState.COMPLETED:
        return job.session_id is not None
    return record.state is JobState.FAILED and may_be_agent_exit_code(job, record.exit_code)


def may_be_agent_exit_code(job: Job, exit_code: int | None) -> bool:
    """Return whether the agent itself may have ended with ``exit_code``, so that its outcome file
    must be read to find out how the run ended.

    Always True for a job with ranks or a notebook, because the file names the rank or the cell that
    failed.
    """
    if job.spec.distributed is not None or job.spec.notebook is not None:
        return True
    if job.spec.image_use is not None and exit_code in _LAUNCHERS_CODES:
        return True
    return exit_code in _AGENTS_CODES


def make_end_changes(
    job: Job,
    record: SchedulerJob,
    now: datetime,
    agent_record: ProgramOutcome | None = None,
    cluster: Cluster | None = None,
) -> JobChanges:
    """Return the changes to store for a run that has ended according to the scheduler's record.

    ``agent_record`` is the content of the agent's outcome file, needed only if ``may_be_agent_exit_code``
    returns True for the exit code. ``cluster`` is used for the reasons that the scheduler gives for
    failed nodes.
    """
    exit_code = record.exit_code
    reason = record.reason
    message = None
    if job.cancel_requested_at is not None and record.state is JobState.CANCELLED:
        message = job.message
        reason = job.reason or reason
    elif reason is TerminationReason.TIMED_OUT:
        message = "It reached its time limit."
    elif reason is TerminationReason.OUT_OF_MEMORY:
        message = "It used more memory than it had requested; request more next time."
    elif reason is TerminationReason.FAILED:
        message = (
            f"The program was ended by signal {record.signal}."
            if record.signal
            else f"The program ended with exit code {record.exit_code}."
        )
    elif reason is TerminationReason.NODE_FAILED:
        exit_code = None  # Slurm reports 0 for a script whose end it has not seen
        nodes = format_nodes(record.nodes or job.nodes, cluster)
        message = f"{nodes} failed while it ran; the job is not the cause."
    elif reason is TerminationReason.CANCELLED:
        message = record.pending_reason or _CANCELLED
    elif reason is not None and record.pending_reason:
        message = record.pending_reason
    elif reason is TerminationReason.COMPLETED and agent_record and agent_record.message:
        message = _format_sentence(agent_record.message)
    if reason is TerminationReason.FAILED and is_agent_killed(job, record, agent_record):
        reason = TerminationReason.NODE_FAILED
        where = next(iter(record.nodes or job.nodes), "its first node")
        message = f"The agent on {where} was killed, and the ranks with it."
    elif reason is TerminationReason.FAILED and record.exit_code is not None:
        own_end = _find_agent_end(job, record.exit_code, agent_record)
        if own_end is not None:
            reason, message = own_end
            exit_code = None if exit_code in _INTERNAL_CODES else exit_code
    # A run that ended before a poll reported it has started, too.
    began = record.started_at or job.allocated_at
    return JobChanges(
        reason=reason,
        message=message,
        exit_code=exit_code,
        signal=record.signal,
        nodes=record.nodes or job.nodes,
        partition=record.partition or job.partition,
        scheduler_record=dict(record.raw),
        restart_count=record.restart_count,
        allocated_at=began,
        started_at=job.started_at or began,
        ended_at=record.ended_at or now,
    )


def _find_agent_end(
    job: Job, exit_code: int, agent_record: ProgramOutcome | None
) -> tuple[TerminationReason, str] | None:
    """Return the termination reason and message if the agent itself ended the run or did not start
    the program.

    None if the program ended by itself. A program may use the same exit codes as the agent (xargs
    does), so the code alone is not sufficient.
    """
    if (
        agent_record is not None
        and agent_record.reason
        and agent_record.message
        and _is_plausible_reason(agent_record.reason, exit_code)
    ):
        return agent_record.reason, _format_sentence(agent_record.message)
    if job.type is JobType.SESSION and exit_code == EXIT_NEVER_ANSWERED:
        return TerminationReason.START_FAILED, "The app did not answer in time; see the log."
    return None


def _format_sentence(message: str) -> str:
    # The file belongs to the job's owner: no more than a sentence is taken from it.
    sentence = " ".join(message.split())
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _is_plausible_reason(reason: TerminationReason, exit_code: int) -> bool:
    if reason is TerminationReason.PREEMPTED:
        return exit_code == EXIT_PREEMPTED
    return reason in _AGENTS_REASONS


def format_nodes(nodes: Sequence[str], cluster: Cluster | None) -> str:
    """Return a text with the names of the nodes of a run and, for each unusable node, the
    scheduler's reason. ``cluster`` None: no reasons are known.
    """
    reasons = {
        node.name: _BY_WHOM.sub("", node.reason)
        for node in (() if cluster is None else cluster.nodes)
        if node.state in _UNUSABLE and node.reason
    }
    words = [f"{name} ({reasons[name]})" if name in reasons else name for name in nodes]
    if not words:
        return "Its node"
    return f"Node {words[0]}" if len(words) == 1 else f"One of its nodes ({', '.join(words)})"


def make_progress_changes(
    job: Job, record: SchedulerJob, now: datetime, cancelled_at: datetime | None = None
) -> tuple[JobState, JobChanges]:
    """Return the current state of a live job according to the scheduler's record, and the fields of
    the record that differ from the job's database row.

    ``cancelled_at`` is the end of the session with which a rank group is cancelled at the latest;
    None: unknown, or another job. A start that is expected only then is none.
    """
    values: dict[str, object] = {}
    state = record.state
    ending = job.cancel_requested_at is not None  # its message names the requester
    if record.restart_count > job.restart_count and job.state.is_active:
        # It was queued between two polls; the next poll reports its present state.
        state = JobState.QUEUED
    elif state is JobState.RUNNING and job.state in (
        JobState.STARTING,
        JobState.RUNNING,
        JobState.READY,
    ):
        # The scheduler reports the allocation; the agent reports what runs in it.
        state = job.state
        silent = job.allocated_at and now > job.allocated_at + timedelta(seconds=SILENT_AGENT_S)
        if job.state is JobState.STARTING and job.type is JobType.JOB and silent:
            state = JobState.RUNNING
            values["started_at"] = job.allocated_at
    elif state is JobState.RUNNING and job.state is not JobState.SUSPENDED:
        state = JobState.STARTING
    elif state is JobState.STARTING and job.state in (JobState.RUNNING, JobState.READY):
        state = job.state

    if record.restart_count != job.restart_count:
        values["restart_count"] = record.restart_count
    if record.nodes and record.nodes != job.nodes and not _has_lost_nodes(job, record):
        values["nodes"] = record.nodes
    if record.partition and record.partition != job.partition:
        values["partition"] = record.partition
    if state.is_active:
        if record.started_at and record.started_at != job.allocated_at:
            values["allocated_at"] = record.started_at
        if record.started_at and record.time_limit_s:
            # Also an administrator's change of the limit moves the end.
            ends = record.started_at + timedelta(seconds=record.time_limit_s)
            stored = None if "allocated_at" in values else job.expires_at
            if stored is None or abs(ends - stored) > END_NOISE:
                values["expires_at"] = ends
        if job.message is not None and job.state is JobState.QUEUED and not ending:
            values["message"] = None
    if state is JobState.QUEUED:
        if job.state is not JobState.QUEUED:
            # A requeue resets what the previous run had reached.
            values |= dict.fromkeys(_OF_ONE_RUN)
        expected, stored = record.expected_start_at, job.expected_start_at
        too_late = expected and cancelled_at and expected >= cancelled_at - EXPECTED_START_NOISE
        if too_late:
            expected = None
        parts = (record.pending_reason, _TOO_LATE if too_late else None)
        reason = " ".join(filter(None, parts)) or None
        if reason != job.message and not ending:
            values["message"] = reason
        if _start_moved(stored, expected, now) or (too_late and stored is not None):
            values["expected_start_at"] = expected
    # Priorities change slightly with every poll: alone they justify no update of each waiting job.
    if (
        values or state is not job.state or _has_priority_changed(job.priority, record.priority)
    ) and (record.priority != job.priority):
        values["priority"] = record.priority
    if values or state is not job.state:
        values["scheduler_record"] = dict(record.raw)
    return state, JobChanges.model_validate(values)


def _start_moved(stored: datetime | None, expected: datetime | None, now: datetime) -> bool:
    """Return whether the expected start changed enough to be stored.

    Slurm computes expected starts continuously, each time for some of the pending jobs and with
    slightly different results.
    """
    if stored is None or expected is None:
        return stored is not expected and (stored is None or stored < now)
    noise = max(EXPECTED_START_NOISE, EXPECTED_START_PART * (stored - now))
    return abs(expected - stored) > noise


def _has_priority_changed(before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= PRIORITY_NOISE * max(abs(before), 1)


def state_from_agent(job: Job, agent_record: ProgramOutcome) -> tuple[JobState, JobChanges]:
    """Return the final state and the changes to store for a run that the scheduler no longer has a
    record of.

    They follow from ``agent_record``, the content of the agent's outcome file.
    """
    values: dict[str, object] = {
        "exit_code": agent_record.exit_code,
        "ended_at": agent_record.ended_at,
    }
    if job.cancel_requested_at is not None and agent_record.exit_code != 0:
        state, reason = JobState.CANCELLED, job.reason or TerminationReason.CANCELLED
    elif agent_record.exit_code == 0:
        state, reason, values["message"] = JobState.COMPLETED, TerminationReason.COMPLETED, None
    elif (agent_end := _find_agent_end(job, agent_record.exit_code, agent_record)) is not None:
        reason, values["message"] = agent_end
        state = STATE_OF_REASON[reason]
        if agent_record.exit_code in _INTERNAL_CODES:
            values["exit_code"] = None
    else:
        state, reason = JobState.FAILED, TerminationReason.FAILED
        values["message"] = f"The program ended with exit code {agent_record.exit_code}."
    return state, JobChanges.model_validate({**values, "reason": reason})


def make_lost_node_changes(
    job: Job, record: SchedulerJob, now: datetime, cluster: Cluster | None
) -> JobChanges | None:
    """Return the changes to store for a session that has lost its first node, on which its app ran;
    None if that node is still allocated. A session survives the loss of other nodes.
    """
    if not _has_lost_nodes(job, record) or job.nodes[0] in record.nodes:
        return None
    return JobChanges(
        reason=TerminationReason.NODE_FAILED,
        message=f"{format_nodes(job.nodes[:1], cluster)} failed while it ran; the job is not the cause.",
        ended_at=now,
    )


def _has_lost_nodes(job: Job, record: SchedulerJob) -> bool:
    """Return whether the scheduler has removed failed nodes from the allocation of a session. The
    session's database row still names them.
    """
    runs = job.type is JobType.SESSION and record.state is JobState.RUNNING
    return runs and bool(record.nodes) and set(record.nodes) < set(job.nodes)


def has_restarted(job: Job, record: SchedulerJob) -> bool:
    """Return whether the scheduler has restarted the job since its last record."""
    return record.restart_count > job.restart_count and not record.state.is_terminal


def too_many_starts(job: Job, record: SchedulerJob) -> bool:
    """Return whether the scheduler has started the attempt more often than the retry policy allows.

    Slurm knows only whether it may requeue (``sbatch --requeue``), not how often.
    """
    most = max_requeues(job)
    if most is None or job.spec.slurm.requeue is True:
        return False
    return record.restart_count > most and not record.state.is_terminal
