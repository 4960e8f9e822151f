"""Nodes that a retry excludes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.job import JobChanges, RetryPolicy
from aitne.services.controller.excluded_nodes import with_excluded_nodes
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_job

FAILED = JobChanges(reason=TerminationReason.NODE_FAILED)


def cluster(*down: str, names: tuple[str, ...] = ("n1", "n2", "n3", "n4")) -> Cluster:
    return Cluster(
        nodes=tuple(
            Node(
                name=name,
                state=NodeState.DOWN if name in down else NodeState.IDLE,
                cpu_total=8,
                cpu_used=0,
                memory_total_bytes=64 << 30,
                memory_used_bytes=0,
                seen_at=datetime(2026, 1, 2, tzinfo=UTC),
            )
            for name in names
        )
    )


@pytest.mark.parametrize(
    ("nodes", "down", "excluded"),
    [
        (("n1",), (), ("n1",)),
        (("n1", "n2"), ("n2", "n4"), ("n2",)),
        (("n1", "n2"), (), ()),
    ],
    ids=["only node", "the one that is down", "not known which"],
)
def test_failed_node_is_excluded(
    nodes: tuple[str, ...], down: tuple[str, ...], excluded: tuple[str, ...]
) -> None:
    job = make_job(nodes=nodes, spec={"resources": {"nodes": len(nodes)}})
    changes = with_excluded_nodes(job, FAILED, cluster(*down))
    assert changes.excluded_nodes == excluded
    assert ("excluded_nodes" in changes.model_fields_set) is bool(excluded)


def test_other_ends_exclude_no_node() -> None:
    changes = JobChanges(reason=TerminationReason.PREEMPTED)
    assert with_excluded_nodes(make_job(nodes=("n1",)), changes, cluster("n1")) is changes


def test_oldest_exclusion_is_dropped_if_too_few_nodes_are_left() -> None:
    job = make_job(nodes=("n3",), excluded_nodes=("n1", "n2", "gone"))
    assert with_excluded_nodes(job, FAILED, cluster()).excluded_nodes == ("n1", "n2", "n3")
    job = make_job(nodes=("n4",), excluded_nodes=("n1", "n2", "n3"))
    assert with_excluded_nodes(job, FAILED, cluster()).excluded_nodes == ("n2", "n3", "n4")
    alone = cluster("n1", names=("n1",))
    assert with_excluded_nodes(make_job(nodes=("n1",)), FAILED, alone).excluded_nodes == ()


def test_node_that_the_job_file_names_is_not_excluded() -> None:
    job = make_job(nodes=("n1",), spec={"placement": {"nodes": "n1"}})
    assert with_excluded_nodes(job, FAILED, cluster("n1")).excluded_nodes == ()


class FourNodes(FakeScheduler):
    """The nodes n1 to n4, on the first two of which every job runs."""

    async def read_cluster(self) -> Cluster:
        names = ("n1", "n2", "n3", "n4")
        nodes = [self.node.model_copy(update={"name": name}) for name in names]
        return Cluster(nodes=tuple(nodes))


async def test_retry_excludes_the_node_whose_agent_was_lost(bench: Any) -> None:
    b = await bench(FourNodes())
    on = frozenset({TerminationReason.NODE_FAILED})
    spec = {
        "retry": RetryPolicy(max=2, on=on),
        "resources": {"nodes": 2},
        "distributed": {},
        "placement": {"exclude": "n3"},
    }
    job = make_job(spec=spec)
    await b.store.create_job(job)
    await b.outbox.drain()
    b.scheduler.change("1", state=JobState.RUNNING, nodes=("n1", "n2"))
    told = {"reason": "node_failed", "message": "the agent on node n2 was lost"}
    await b.begins(job)
    await b.ends(job, 137, **told, lost_nodes=("n2", "elsewhere"))
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 137)
    await b.poller.poll()
    again = await b.job(job.id)
    assert (again.attempt, again.excluded_nodes) == (2, ("n2",))
    await b.outbox.drain()
    assert b.scheduler.requests[-1].exclude == ("n3", "n2")

    b.scheduler.change("2", state=JobState.RUNNING, nodes=("n1", "n4"))
    await b.begins(job)
    b.scheduler.finish("2", JobState.FAILED, TerminationReason.FAILED, 0)
    b.scheduler.change("2", signal=9)
    await b.poller.poll()
    again = await b.job(job.id)
    assert again.attempt == 3
    assert again.excluded_nodes == ("n1",), "without n1 and n2 too few nodes would be left"
