"""Topology of the cluster over the API."""

from __future__ import annotations

from typing import Any

from aitne.core.jobs.states import JobState
from aitne.core.models.job import JobChanges
from aitne.core.models.node import Cluster, GpuCount, Node, NodeState
from aitne.core.models.topology import TopologyOrigin
from aitne.core.ports.store import TransitionRequest
from aitne.topology.node import Device, NodeTopology, NumaNode
from aitne.topology.parts import TopologyPart
from aitne.topology.record import to_record
from aitne.topology.slurm import read_shown
from tests.support.jobs import make_job
from tests.support.stage import Stage

SHOWN = """\
BlockName=b0 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b1 BlockIndex=1 Nodes=n3,x9 BlockSize=2
"""
URL = "/api/v1/cluster/topology"


def node(stage: Stage, name: str, used: int, state: NodeState = NodeState.MIXED) -> Node:
    return Node(
        name=name,
        state=state,
        cpu_total=8,
        cpu_used=used,
        memory_total_bytes=1 << 30,
        memory_used_bytes=0,
        gpus=(GpuCount(type="a100", total=2, used=used),),
        seen_at=stage.clock.now,
    )


async def test_topology_shows_places_and_use_of_nodes_but_no_jobs_of_others(stage: Stage) -> None:
    lease = await stage.store.take_lease("controller", "test", duration_s=1e6)
    assert lease is not None
    nodes = (
        node(stage, "n1", 1),
        node(stage, "n2", 1),
        node(stage, "n3", 0, NodeState.DOWN),
        node(stage, "n4", 0, NodeState.IDLE),
    )
    await stage.store.save_cluster(Cluster(nodes=nodes, seen_at=stage.clock.now), epoch=lease.epoch)
    for owner, name, where in (("ada", "mine", "n1"), ("bob", "confidential", "n2")):
        await stage.add_user(owner)
        job = (await stage.store.create_job(make_job(owner=owner, name=name))).job
        changes = JobChanges(nodes=(where,), started_at=stage.clock.now)
        await stage.store.transition(
            TransitionRequest(job.id, JobState.SUBMITTING), epoch=lease.epoch
        )
        await stage.store.transition(
            TransitionRequest(job.id, JobState.RUNNING, changes), epoch=lease.epoch
        )
    part = NodeTopology(
        "n1",
        "/sys",
        numa_nodes=(NumaNode(0, (0, 1, 2, 8)), NumaNode(1, (3, 4))),
        gpus=(Device("GPU0", numa=0), Device("GPU1", numa=1)),
        nics=(Device("mlx5_0", numa=1),),
        links={("GPU0", "GPU1"): "NV4", ("GPU1", "GPU0"): "NV4"},
    )
    switches = to_record(TopologyPart(tuple(read_shown(SHOWN))))
    await stage.store.save_topology(TopologyOrigin.SCHEDULER, "", switches)
    described = to_record(TopologyPart(nodes=(part,)))
    await stage.store.save_topology(TopologyOrigin.NODES, "n1", described, boot_id="1")
    async with stage.client(await stage.token("ada")) as client:
        answer = await client.get(URL)
    found: dict[str, Any] = answer.json()
    assert [(each["name"], each["parent"], each["kind"]) for each in found["switches"]] == [
        ("b0", "(all blocks)", "block"),
        ("b1", "(all blocks)", "block"),
        ("(all blocks)", None, "block"),
    ]
    one, two, three, four = found["nodes"]
    assert one == {
        "name": "n1",
        "switch": "b0",
        "source": "scontrol show topology, line 1",
        "state": "mixed",
        "gpus": 2,
        "free_gpus": 1,
        "mine": True,
        "used": True,
        "numa_nodes": [
            {"index": 0, "cpus": "0-2,8", "gpus": [0]},
            {"index": 1, "cpus": "3-4", "gpus": [1]},
        ],
        "gpu_links": [[None, "NV4"], ["NV4", None]],
        "nics": [{"name": "mlx5_0", "numa": 1}],
    }
    assert (two["mine"], two["used"], two["numa_nodes"]) == (False, True, None)
    assert (three["switch"], three["free_gpus"], three["used"]) == ("b1", 0, False)
    assert (four["switch"], four["source"]) == (None, None)
    assert found["unknown_nodes"] == ["n4"]
    (source,) = found["sources"]
    assert (source["name"], source["origin"]) == ("scontrol show topology", "scheduler")
    assert source["problem"] is None
    assert "bob" not in answer.text
    assert "confidential" not in answer.text
