"""Topology of the cluster over the API."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.job import JobChanges
from aitne.core.models.user import Role
from aitne_train.topology.node_topology import Device, NodeTopology, NumaNode
from aitne_train.topology.slurm import parse_shown_topology
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart
from tests.support.jobs import make_job
from tests.support.stage import Stage
from tests.support.topologies import ASSETS

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
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e6)
    assert lease is not None
    nodes = (
        node(stage, "n1", 1),
        node(stage, "n2", 1),
        node(stage, "n3", 0, NodeState.DOWN),
        node(stage, "n4", 0, NodeState.IDLE),
    )
    await stage.store.save_cluster(Cluster(nodes=nodes, seen_at=stage.clock.now), epoch=lease.epoch)
    ada = await stage.add_user("ada")
    for owner, name, where in (("ada", "mine", "n1"), ("bob", "confidential", "n2")):
        job = (await stage.store.create_job(make_job(owner=owner, name=name))).job
        changes = JobChanges(nodes=(where,), started_at=stage.clock.now)
        await stage.store.transition_job(job.id, JobState.SUBMITTING)
        await stage.store.transition_job(job.id, JobState.RUNNING, changes)
    part = NodeTopology(
        "n1",
        "/sys",
        numa_nodes=(NumaNode(0, (0, 1, 2, 8)), NumaNode(1, (3, 4))),
        gpus=(Device("GPU0", numa=0), Device("GPU1", numa=1)),
        nics=(Device("mlx5_0", numa=1),),
        links={("GPU0", "GPU1"): "NV4", ("GPU1", "GPU0"): "NV4"},
    )
    switches = part_to_record(TopologyPart(tuple(parse_shown_topology(SHOWN))))
    await stage.store.save_topology(TopologyOrigin.SCHEDULER, "", switches)
    described = part_to_record(TopologyPart(nodes=(part,)))
    await stage.store.save_topology(TopologyOrigin.IMPORT, "n1.xml", described)
    async with stage.client(await stage.token(ada)) as client:
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
    _, source = found["sources"]
    assert (source["name"], source["origin"]) == ("scontrol show topology", "scheduler")
    assert source["problem"] is None
    assert "bob" not in answer.text
    assert "confidential" not in answer.text


CONF = "SwitchName=leaf0 Nodes=n[1-2]\nSwitchName=leaf1 Nodes=n[3-4]\nSwitchName=core Switches=leaf[0-1]\n"


async def test_imported_topology_is_served_until_it_is_removed(stage: Stage) -> None:
    async with stage.client(await stage.token(await stage.add_user("admin", Role.ADMIN))) as client:
        url = "/api/v1/admin/topology/topology.conf"
        assert (await client.put(url, json={"content": CONF})).status_code == 204
        found = (await client.get(URL)).json()
        assert [each["source"] for each in found["switches"]] == [
            f"topology.conf, line {line}" for line in (1, 2, 3)
        ]
        (source,) = found["sources"]
        assert (source["name"], source["origin"]) == ("topology.conf", "import")
        matrix = (ASSETS / "nvidia" / "v100-8gpus.txt").read_text()
        named = {"content": matrix, "node": "n1"}
        assert (await client.put("/api/v1/admin/topology/m.txt", json=named)).status_code == 204
        assert (await client.delete(url)).status_code == 204
        assert (await client.delete(url)).status_code == 404
        assert (await client.get(URL)).json()["switches"] == []


async def test_imported_topology_may_have_two_fabrics(stage: Stage) -> None:
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e6)
    assert lease is not None
    nodes = (node(stage, "n1", 0), node(stage, "n9.example.org", 0))
    await stage.store.save_cluster(Cluster(nodes=nodes, seen_at=stage.clock.now), epoch=lease.epoch)
    async with stage.client(await stage.token(await stage.add_user("admin", Role.ADMIN))) as client:
        content = {"content": CONF + "SwitchName=eth Nodes=n9\n"}
        answer = await client.put("/api/v1/admin/topology/t.conf", json=content)
        assert answer.status_code == 204, answer.text
        found = (await client.get(URL)).json()
    roots = [each["name"] for each in found["switches"] if each["parent"] is None]
    assert roots == ["core", "eth"]
    assert [each["switch"] for each in found["nodes"]] == ["leaf0", "eth"]
    assert found["unknown_nodes"] == []


GRES = """\
AutoDetect=off
NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-3 Links=-1,4
NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia1 Cores=4-7 Links=4,-1
"""


async def test_gres_file_describes_the_nodes_that_have_not_described_themselves(
    stage: Stage,
) -> None:
    lease = await stage.store.acquire_lease("controller", "test", duration_s=1e6)
    assert lease is not None
    nodes = (node(stage, "n1", 0), node(stage, "n2", 0), node(stage, "n3", 0))
    await stage.store.save_cluster(Cluster(nodes=nodes, seen_at=stage.clock.now), epoch=lease.epoch)
    own = NodeTopology(
        "n2",
        "agent on n2",
        numa_nodes=(NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5))),
        gpus=(Device("GPU0", numa=1), Device("GPU1", numa=0)),
        links={("GPU0", "GPU1"): "NV2", ("GPU1", "GPU0"): "NV2"},
    )
    reported = {**part_to_record(TopologyPart(nodes=(own,))), "python": "3.11", "boot_id": "b"}
    await stage.store.save_topology(TopologyOrigin.NODES, "n2", reported)
    async with stage.client(await stage.token(await stage.add_user("admin", Role.ADMIN))) as client:
        url = "/api/v1/admin/topology/gres.conf"
        assert (await client.put(url, json={"content": GRES})).status_code == 204
        found = (await client.get(URL)).json()
    one, two, three = found["nodes"]
    assert one["numa_nodes"] == [
        {"index": 0, "cpus": "0-3", "gpus": [0]},
        {"index": 1, "cpus": "4-7", "gpus": [1]},
    ]
    assert one["gpu_links"] == [[None, "NV4"], ["NV4", None]]
    assert two["numa_nodes"] == [
        {"index": 0, "cpus": "0-3", "gpus": [1]},
        {"index": 1, "cpus": "4-5", "gpus": [0]},
    ]
    assert two["gpu_links"] == [[None, "NV2"], ["NV2", None]]
    assert three["numa_nodes"] is None
    (source,) = found["sources"]
    assert (source["name"], source["problem"]) == ("gres.conf", None)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.conf", CONF + CONF, "t.conf, line 4: the switch leaf0 is defined again"),
        ("t.conf", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "form a cycle"),
        ("t.conf", "SwitchName=a\n", "t.conf, line 1: the switch a has no nodes"),
        ("t.conf", "SwitchName=a Nodes=n[1-1000000000]\n", "t.conf, line 1"),
        ("t.yaml", "- topology: a\n  tree: [\n", "t.yaml, line"),
        (
            "t.xml",
            '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><topology>&e;</topology>',
            "t.xml, line 1",
        ),
        ("gres.conf", "\nName=gpu File=/dev/nvidia[0-3] Links=-1,4\n", "gres.conf, line 2"),
        ("gres.conf", "Name=gpu File=/dev/nvidia0 Cores=0-7\n", "import FILE --node NAME"),
        ("t.txt", "hello", "t.txt: it has none of the formats"),
    ],
    ids=[
        "twice",
        "cycle",
        "empty",
        "endless",
        "yaml",
        "entity",
        "links",
        "no node",
        "words",
    ],
)
async def test_invalid_topology_is_refused_with_its_line_and_nothing_is_stored(
    stage: Stage, name: str, content: str, problem: str
) -> None:
    async with stage.client(await stage.token(await stage.add_user("admin", Role.ADMIN))) as client:
        answer = await client.put(f"/api/v1/admin/topology/{name}", json={"content": content})
    assert answer.status_code == 422
    assert problem in answer.json()["detail"]
    assert "/tmp" not in answer.text
    assert await stage.store.list_topologies_after(0) == []
