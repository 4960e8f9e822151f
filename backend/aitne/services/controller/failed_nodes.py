"""Nodes that failed during a job's run, on which the next attempt does not run."""

from __future__ import annotations

import signal

from aitne.core.cluster.capacity import able
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.node import Cluster, NodeState
from aitne.core.ports.files import ProgramOutcome
from aitne.core.ports.scheduler import SchedulerJob

MOST_EXCLUDED = 64
"""Maximum number of nodes that a job excludes because of earlier failures."""


def killed_agent(job: Job, record: SchedulerJob, agent_record: ProgramOutcome | None) -> bool:
    """Return whether the agent of the first node of a distributed job was killed, so that it has
    left no outcome. It never ends by this signal itself.
    """
    return (
        job.spec.distributed is not None
        and job.spec.resources.nodes > 1
        and agent_record is None
        and record.signal == signal.SIGKILL
    )


def _failed(
    job: Job, changes: JobChanges, cluster: Cluster, agent_record: ProgramOutcome | None
) -> tuple[str, ...]:
    """Return the nodes because of which a run ended, as far as they are known: those whose agents
    were lost, else the first node if its agent was killed, else the nodes of the run that are down,
    or its only node.
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


def excluding(
    job: Job, changes: JobChanges, cluster: Cluster, agent_record: ProgramOutcome | None = None
) -> JobChanges:
    """Return the changes at the end of a run with the nodes on which the next attempt must not run:
    those that failed in this run and in earlier ones. The oldest are dropped until enough nodes are
    left for the job.

    ``agent_record`` is the agent's outcome file, which belongs to the job's owner: it can only name
    nodes of the run.
    """
    failed = _failed(job, changes, cluster, agent_record)
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
        for node in able(job.spec.resources, cluster.nodes)
        if job.partition is None or job.partition in node.partitions
    } - set(job.spec.placement.excluded_names)
    while known and names and len(usable - set(names)) < job.spec.resources.nodes:
        del names[0]
    return changes.model_copy(update={"excluded_nodes": tuple(names)})
