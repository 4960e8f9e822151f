"""Nodes and partitions over the API, and who may drain a node."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import (
    Cluster,
    GpuCount,
    Node,
    NodeState,
    Partition,
    SchedulerStatus,
)
from aitne.core.models.user import Role
from aitne.services.cluster.cluster import ClusterService
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_job
from tests.support.stage import Stage


def node(stage: Stage, name: str, state: NodeState, used: int = 0, **fields: Any) -> Node:
    return Node(
        name=name,
        state=state,
        cpu_total=8,
        cpu_used=2 * used,
        memory_total_bytes=32 << 30,
        memory_used_bytes=0,
        gpus=(GpuCount(type="a100", total=4, used=used),),
        features=("nvlink",),
        partitions=("gpu",),
        seen_at=stage.clock.now,
        **fields,
    )


async def save(stage: Stage, *nodes: Node) -> int:
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e6)
    assert lease is not None
    cluster = Cluster(
        nodes=nodes,
        partitions=(
            Partition(name="debug", nodes=("gpu01",), max_time_s=1800),
            Partition(name="gpu", default=True, nodes=tuple(each.name for each in nodes)),
        ),
        qos=("normal",),
        seen_at=stage.clock.now,
    )
    await stage.store.save_cluster(cluster, epoch=lease.epoch)
    return lease.epoch


async def test_partitions_sum_up_what_their_nodes_have(stage: Stage) -> None:
    await save(
        stage,
        node(stage, "gpu01", NodeState.MIXED, 1),
        node(stage, "gpu02", NodeState.IDLE),
        node(stage, "gpu03", NodeState.DOWN),
    )
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        found = (await client.get("/api/v1/cluster/partitions")).json()
    assert found["qos"] == ["normal"]
    gpu, debug = found["items"]
    assert (gpu["name"], gpu["default"], gpu["nodes"]) == ("gpu", True, "gpu[01-03]")
    assert gpu["states"] == {"mixed": 1, "idle": 1, "down": 1}
    # Four GPUs belong to the node that is down and are not free.
    assert gpu["gpus"] == [{"type": "a100", "total": 12, "used": 1, "free": 7}]
    assert (debug["node_count"], debug["max_time_s"]) == (1, 1800)


async def test_an_etag_holds_until_something_but_the_time_changes(stage: Stage) -> None:
    first = node(stage, "gpu01", NodeState.IDLE)
    await save(stage, first)
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        url = "/api/v1/cluster/nodes"
        got = await client.get(url)
        assert got.json()["items"][0]["features"] == ["nvlink"]
        tag = {"If-None-Match": got.headers["etag"]}
        stage.clock.move(2)
        await save(stage, node(stage, "gpu01", NodeState.IDLE))
        again = await client.get(url, headers=tag)
        assert (again.status_code, again.content) == (304, b"")
        await save(stage, node(stage, "gpu01", NodeState.MIXED, 1))
        changed = await client.get(url, headers=tag)
        assert changed.status_code == 200
        assert changed.headers["etag"] != got.headers["etag"]


async def test_a_scheduler_that_is_silent_makes_what_is_shown_stale(stage: Stage) -> None:
    epoch = await save(stage, node(stage, "gpu01", NodeState.IDLE))
    since = stage.clock.now - timedelta(seconds=5)
    status = SchedulerStatus(responding=False, since=since, message="slurmctld does not answer")
    await stage.store.save_scheduler_status(status, epoch=epoch)
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        found = (await client.get("/api/v1/cluster/nodes")).json()
    assert found["stale"]
    assert found["scheduler"]["message"] == "slurmctld does not answer"


async def test_queues_and_load_are_shown_by_partition(stage: Stage) -> None:
    await save(stage, node(stage, "gpu01", NodeState.MIXED, 1))
    await stage.store.create_job(make_job(state=JobState.QUEUED, partition="gpu"))
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        (queue,) = (await client.get("/api/v1/cluster/queues?period=month")).json()["items"]
        assert (queue["partition"], queue["waiting_jobs"], queue["running_jobs"]) == ("gpu", 1, 0)
        history = await client.get("/api/v1/cluster/history?period=month&partition=gpu")
        assert history.json() == {"interval_s": 14_400, "items": []}
        missing = await client.get("/api/v1/cluster/history?partition=elsewhere")
        assert missing.status_code == 404
        assert (await client.get("/api/v1/cluster/queues?period=year")).status_code == 422


class Draining(FakeScheduler):
    """Notes what is drained and resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, ...]] = []

    async def drain(self, node: str, reason: str) -> None:
        self.said.append(("drain", node, reason))

    async def resume(self, node: str) -> None:
        self.said.append(("resume", node))


async def test_an_administrator_drains_and_resumes(stage: Stage) -> None:
    scheduler = Draining()
    stage.app.state.platform = replace(
        stage.platform,
        cluster=ClusterService(stage.store, scheduler, stage.settings, stage.clock),
    )
    await save(stage, node(stage, "gpu01", NodeState.IDLE))
    admin = await stage.token(await stage.add_user("root", Role.ADMIN))
    async with stage.client(admin) as client:
        body = {"reason": "fan\n is loud"}
        done = await client.post("/api/v1/cluster/nodes/gpu01/drain", json=body)
        assert (done.status_code, done.json()["name"]) == (202, "gpu01")
        assert (await client.post("/api/v1/cluster/nodes/gpu01/resume")).status_code == 202
        unknown = await client.post("/api/v1/cluster/nodes/nope/drain", json=body)
        assert unknown.status_code == 404
        empty = await client.post("/api/v1/cluster/nodes/gpu01/drain", json={"reason": "  "})
        assert empty.status_code == 422
    assert scheduler.said == [("drain", "gpu01", "fan is loud (root)"), ("resume", "gpu01")]
    events = await stage.store.list_events_after(0)
    told = [(each.kind, each.data) for each in events if each.kind.startswith("node.")]
    assert told == [
        ("node.drained", {"node": "gpu01", "by": "root", "reason": "fan is loud"}),
        ("node.resumed", {"node": "gpu01", "by": "root", "reason": None}),
    ]


async def test_drain_is_refused_to_users_and_by_schedulers_without_drain(stage: Stage) -> None:
    await save(stage, node(stage, "gpu01", NodeState.IDLE))
    url = "/api/v1/cluster/nodes/gpu01/drain"
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        assert (await client.post(url, json={"reason": "x"})).status_code == 403
    admin = await stage.token(await stage.add_user("root", Role.ADMIN))
    async with stage.client(admin) as client:
        answer = await client.post(url, json={"reason": "x"})
    assert answer.status_code == 501
    assert "Slurm can" in answer.json()["detail"]
