"""Descriptions of nodes that jobs report."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.user import Actor, Role
from aitne.services.platform.shared_secrets import hash_secret
from aitne_train.topology.node_topology import Device, NodeTopology
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart
from tests.support.jobs import make_job, store_job_token
from tests.support.stage import Stage

URL = "/api/v1/cluster/topology"
BOOT, NEXT_BOOT = str(uuid4()), str(uuid4())
NODE = "node01"
GPUS = [{"name": f"GPU{n}", "pci": f"0000:{n}7:00.0", "numa": n} for n in (0, 1)]
DESCRIBED: dict[str, Any] = {
    "boot_id": BOOT,
    "python": "3.11",
    "numa_nodes": [{"index": 0, "cpus": "0-1"}, {"index": 1, "cpus": "2-3"}],
    "gpus": GPUS,
    "nics": [{"name": "mlx5_0", "pci": "0000:18:00.0", "numa": 0}],
    "links": [["GPU0", "GPU1", "SYS"], ["GPU0", "mlx5_0", "PIX"]],
}


async def running(stage: Stage, owner: str = "ada", nodes: tuple[str, ...] = (NODE,)) -> Job:
    epoch = await stage.add_node()
    job = (await stage.store.create_job(make_job(owner=owner))).job
    for state in (JobState.SUBMITTING, JobState.QUEUED):
        await stage.store.transition_job(job.id, state)
    job = await stage.store.transition_job(job.id, JobState.RUNNING, JobChanges(nodes=nodes))
    await store_job_token(stage.store, job.id, hash_secret(str(job.id)), epoch=epoch)
    return job


async def heard(stage: Stage, job: Job, boot: str = BOOT, **fields: object) -> bool:
    """Send a report and return whether the platform asks for a description of the node."""
    body = {"protocol": 1, "attempt": 1, "phase": "running", "node": NODE, "boot_id": boot}
    async with stage.client(str(job.id)) as agent:
        url = f"/agent/v1/jobs/{job.id}/report"
        answer = await agent.post(url, json={**body, "python": "3.11", **fields})
    assert answer.status_code == 200
    return bool(answer.json()["topology_wanted"])


async def shown(stage: Stage, user: Actor) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    async with stage.client(await stage.token(user)) as client:
        found = (await client.get(URL)).json()
    return next(each for each in found["nodes"] if each["name"] == NODE), found["sources"]


async def test_a_job_describes_its_node_once_a_boot(stage: Stage) -> None:
    eve = await stage.add_user("eve")
    job = await running(stage)
    assert await heard(stage, job)
    assert not await heard(stage, job, topology=DESCRIBED)
    node, sources = await shown(stage, eve)
    assert node["numa_nodes"] == [
        {"index": 0, "cpus": "0-1", "gpus": [0]},
        {"index": 1, "cpus": "2-3", "gpus": [1]},
    ]
    assert node["gpu_links"] == [[None, "SYS"], ["SYS", None]]
    assert node["nics"] == [{"name": "mlx5_0", "numa": 0}]
    assert sources == []
    assert not await heard(stage, job, NEXT_BOOT), "a boot is a claim of the agent"
    stage.clock.move(timedelta(minutes=10).total_seconds())
    assert not await heard(stage, job)
    assert await heard(stage, job, python="3.12")
    assert await heard(stage, job, NEXT_BOOT)
    assert not await heard(
        stage, job, NEXT_BOOT, topology={**DESCRIBED, "boot_id": NEXT_BOOT, "python": "3.12"}
    )


async def test_a_job_cannot_describe_a_node_that_it_does_not_run_on(stage: Stage) -> None:
    job = await running(stage, nodes=("node02",))
    assert not await heard(stage, job, topology=DESCRIBED)
    assert not await heard(stage, job, restart_count=1, node="node02", topology=DESCRIBED)
    assert await stage.store.list_topologies_after(0) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"boot_id": "x" * 36},
        {"python": "2.7"},
        {"numa_nodes": []},
        {"numa_nodes": [{"index": 0, "cpus": "3-0"}]},
        {"numa_nodes": [{"index": 0, "cpus": "0-3"}, {"index": 1, "cpus": "3"}]},
        {"numa_nodes": [{"index": 0, "cpus": "0"}, {"index": 0, "cpus": "1"}]},
        {"gpus": [*GPUS, GPUS[0]]},
        {"gpus": [{"name": f"GPU{n}"} for n in range(65)]},
        {"nics": [{"name": "<script>"}]},
        {"links": [["GPU0", "GPU9", "SYS"]]},
        {"links": [["GPU0", "GPU1", "fast"]]},
    ],
)
async def test_an_invalid_description_is_ignored(stage: Stage, wrong: dict[str, Any]) -> None:
    job = await running(stage)
    assert await heard(stage, job, topology={**DESCRIBED, **wrong})
    assert await stage.store.list_topologies_after(0) == []


async def test_a_differing_description_of_another_user_is_a_problem_and_is_not_used(
    stage: Stage,
) -> None:
    eve = await stage.add_user("eve")
    await heard(stage, await running(stage), topology=DESCRIBED)
    stage.clock.move(timedelta(minutes=10).total_seconds())
    other = await running(stage, "bob")
    with_nvlink = {**DESCRIBED, "boot_id": NEXT_BOOT, "links": [["GPU0", "GPU1", "NV4"]]}
    await heard(stage, other, NEXT_BOOT, topology=with_nvlink)
    node, sources = await shown(stage, eve)
    assert (node["gpu_links"][0][1], sources) == ("NV4", []), "a job with all GPUs knows more"
    stage.clock.move(timedelta(minutes=10).total_seconds())
    differs = {**DESCRIBED, "numa_nodes": [{"index": 0, "cpus": "0-3"}]}
    assert not await heard(stage, other, topology=differs)
    node, (source,) = await shown(stage, eve)
    assert len(node["numa_nodes"]) == 2
    assert (source["name"], source["origin"]) == (NODE, "nodes")
    assert "aitne admin topology forget node01" in source["problem"]
    assert not {"ada", "bob"} & set(source["problem"].split())
    stage.clock.move(timedelta(minutes=10).total_seconds())
    assert not await heard(stage, other, NEXT_BOOT)
    async with stage.client(await stage.token(await stage.add_user("admin", Role.ADMIN))) as admin:
        answer = await admin.delete(f"/api/v1/admin/topology/{NODE}")
    assert answer.status_code == 204
    assert (await shown(stage, eve))[0]["numa_nodes"] is None
    assert await heard(stage, other)


async def test_an_old_python_refuses_jobs_of_others_only_after_a_second_user_reports_it(
    stage: Stage, tmp_path: Path
) -> None:
    ada, bob, eve = [await stage.add_user(name) for name in ("ada", "bob", "eve")]
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    job_file = {"notebook": {"path": str(path)}, "distributed": {"ranks_per_node": 2}}

    async def refused(user: Actor) -> bool:
        async with stage.client(await stage.token(user)) as client:
            answer = await client.post("/api/v1/jobs:plan", json=job_file)
        assert answer.status_code in (200, 422), answer.text
        return "need Python 3.11" in answer.text

    job = await running(stage, "ada")
    await heard(stage, job, python="3.8", topology={**DESCRIBED, "python": "3.8"})
    await heard(stage, job, python="3.8")
    assert [await refused(user) for user in (ada, bob, eve)] == [True, False, False]
    await heard(stage, await running(stage, "bob"), python="3.8")
    assert [await refused(user) for user in (ada, bob, eve)] == [True, True, True]
    stage.clock.move(timedelta(minutes=10).total_seconds())
    claimed = {**DESCRIBED, "boot_id": NEXT_BOOT, "python": "3.7"}
    await heard(stage, job, NEXT_BOOT, python="3.7", topology=claimed)
    assert [await refused(user) for user in (ada, bob, eve)] == [True, False, False]


async def test_a_description_only_adds_to_what_an_administrator_has_imported(stage: Stage) -> None:
    eve = await stage.add_user("eve")
    gpus = (Device("GPU0", numa=0), Device("GPU1", numa=0))
    pairs = (("GPU0", "GPU1"), ("GPU1", "GPU0"))
    part = NodeTopology(NODE, "matrix.txt", gpus=gpus, links=dict.fromkeys(pairs, "PIX"))
    content = part_to_record(TopologyPart(nodes=(part,)))
    await stage.store.save_topology(TopologyOrigin.IMPORT, "matrix.txt", content)
    described = {**DESCRIBED, "links": [["GPU0", "GPU1", "NV12"]]}
    job = await running(stage)
    await heard(stage, job, topology=described)
    node, _ = await shown(stage, eve)
    assert node["gpu_links"][0][1] == "PIX"
    assert [each["gpus"] for each in node["numa_nodes"]] == [[0, 1], []]
    assert node["nics"] == [{"name": "mlx5_0", "numa": 0}]
