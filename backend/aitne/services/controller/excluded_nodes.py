"""Nodes that failed during a job's run, on which the next attempt does not run."""

from __future__ import annotations

import signal

from aitne.core.cluster.request_fit import select_capable_nodes
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.cluster import Cluster, NodeState
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.job_files import ProgramOutcome
from aitne.core.ports.scheduler import SchedulerJob

MOST_EXCLUDED = 64
"""Maximum number of nodes that a job excludes because of earlier failures."""


def is_agent_killed(job: Job, record: SchedulerJob, agent_record: ProgramOutcome | None) -> bool:
    """Return whether the agent on the first node of a distributed job was killed (SIGKILL), so that
    it has written no outcome file. The agent never sends this signal to itself.
    """
    return (
        job.spec.distributed is not None
        and job.spec.resources.nodes > 1
        and agent_record is None
        and record.signal == signal.SIGKILL
    )


def _list_failed_nodes(
    job: Job, changes: JobChanges, cluster: Cluster, agent_record: ProgramOutcome | None
) -> tuple[str, ...]:
    """Return the nodes whose failure ended a run, as far as they are known; empty if no failed node
    ended it.

    These are the nodes whose agents were lost; if there are none, the first node if its agent was
    killed; otherwise the nodes of the run that are down, or its only node.
    """
    nodes = changes.nodes or job.nodes
    if changes.reason is not TerminationReason.NODE_FAILED:
        return ()
    if agent_record is not None and (
        lost := [name for name in nodes if name in agent_record.lost_nodes]
    ):
        return tuple(lost)
    if changes.signal == signal.SIGKILL:
        return nodes[:1]
    states = {node.name: node.state for node in cluster.nodes}
    down = [name for name in nodes if states.get(name) is NodeState.DOWN]
    return tuple(down) if down or len(nodes) > 1 else tuple(nodes)


def with_excluded_nodes(
    job: Job, changes: JobChanges, cluster: Cluster, agent_record: ProgramOutcome | None = None
) -> JobChanges:
    """Add the nodes on which the next attempt must not run to the changes at the end of a run, and
    return the result.

    These are the nodes that failed in this run and in earlier ones. The oldest of them are omitted
    until enough nodes are left for the job. ``agent_record`` is the content of the agent's outcome
    file, which the job's owner can change; it can only exclude nodes of the run.
    """
    failed = _list_failed_nodes(job, changes, cluster, agent_record)
    if not failed:
        return changes
    required = set(job.spec.placement.node_names)
    known = {node.name for node in cluster.nodes}  # none before the scheduler has been asked
    names = [
        name
        for name in dict.fromkeys([*job.excluded_nodes, *failed])
        if (name in known or not known) and name not in required
    ][-MOST_EXCLUDED:]
    usable = {
        node.name
        for node in select_capable_nodes(job.spec.resources, cluster.nodes)
        if job.partition is None or job.partition in node.partitions
    } - set(job.spec.placement.excluded_names)
    while known and names and len(usable - set(names)) < job.spec.resources.nodes:
        del names[0]
    return changes.model_copy(update={"excluded_nodes": tuple(names)})
