"""Placement of jobs over the API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.job import Job, JobChanges
from aitne.services.platform.shared_secrets import hash_secret
from aitne_train.topology.slurm import parse_conf
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart
from tests.support.jobs import make_job, store_job_token
from tests.support.stage import Stage

TOKEN = "agents-token"
NODES = ("n1", "n2", "n3", "n4")
INTERLEAVED = "SwitchName=a Nodes=n1,n3\nSwitchName=b Nodes=n2,n4\nSwitchName=top Switches=a,b\n"
REPORTED: dict[str, Any] = {
    "given": list(NODES),
    "order": ["n1", "n3", "n2", "n4"],
    "reason": "rank order: 4 -> 2 crossings,\nbusiest \x1b[1muplink 2 -> 1",
    "crossings": {"given": 9, "chosen": 0},
    "busiest_uplink": {"given": 9, "chosen": 0},
    "bindings": [{"rank": 0, "node": "n1", "cores": "0-3", "numa": 0, "gpu": None, "nic": None}],
}


async def running(stage: Stage, nodes: tuple[str, ...] = NODES) -> Job:
    epoch = await stage.add_node()
    job = (await stage.store.create_job(make_job(owner="ada", project="ada"))).job
    for state in (JobState.SUBMITTING, JobState.QUEUED):
        await stage.store.transition_job(job.id, state)
    job = await stage.store.transition_job(job.id, JobState.RUNNING, JobChanges(nodes=nodes))
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=epoch)
    return job


async def report(stage: Stage, job: Job, placement: dict[str, Any]) -> None:
    body = {"protocol": 1, "attempt": 1, "phase": "running", "node": "n1", "placement": placement}
    async with stage.client(TOKEN) as agent:
        answer = await agent.post(f"/agent/v1/jobs/{job.id}/report", json=body)
    assert answer.status_code == 200


async def placement_of(stage: Stage, job: Job, token: str) -> httpx.Response:
    async with stage.client(token) as client:
        return await client.get(f"/api/v1/jobs/{job.id}/placement")


async def test_placement_has_the_reported_order_with_costs_of_the_platforms_topology(
    stage: Stage,
) -> None:
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve")
    part = TopologyPart(tuple(parse_conf(INTERLEAVED, "t.conf")))
    await stage.store.save_topology(TopologyOrigin.IMPORT, "t.conf", part_to_record(part))
    job = await running(stage)
    await report(stage, job, REPORTED)
    found = (await placement_of(stage, job, await stage.token(ada))).json()
    assert found == {
        "given": list(NODES),
        "order": ["n1", "n3", "n2", "n4"],
        "crossings": {"given": 4, "chosen": 2, "best": 2},
        "busiest_uplink": {"given": 2, "chosen": 1, "best": 1},
        "switches": [
            {"name": "a", "parent": "top"},
            {"name": "b", "parent": "top"},
            {"name": "top", "parent": None},
        ],
        "leaves": {"n1": "a", "n2": "b", "n3": "a", "n4": "b"},
        "bindings": REPORTED["bindings"],
        "reason": "Rank order: 4 -> 2 crossings, busiest [1muplink 2 -> 1.",
    }
    assert (await placement_of(stage, job, await stage.token(eve))).status_code == 404


async def test_placement_without_a_topology_has_the_costs_that_were_reported(stage: Stage) -> None:
    token = await stage.token(await stage.add_user("ada"))
    job = await running(stage)
    before = (await placement_of(stage, job, token)).json()
    assert (before["order"], before["crossings"], before["bindings"]) == (list(NODES), None, [])
    await report(stage, job, REPORTED)
    found = (await placement_of(stage, job, token)).json()
    assert found["crossings"] == {"given": 9, "chosen": 0, "best": 0}
    assert (found["switches"], found["leaves"]) == ([], {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": ["n1", "n3", "n2"]},
        {"order": ["n1", "n1", "n2", "n4"]},
        {"given": ["n1", "n2", "n3", "other"], "order": ["n1", "n2", "n3", "other"]},
        {"bindings": [{"rank": 0, "node": "n1", "cores": "<script>"}]},
        {"bindings": [{"rank": 0, "node": "other", "cores": "0"}]},
        {"bindings": REPORTED["bindings"] * 5_000},
    ],
    ids=["missing", "twice", "other nodes", "cores", "other node", "too many"],
)
async def test_wrong_report_of_a_placement_is_ignored(stage: Stage, wrong: dict[str, Any]) -> None:
    ada = await stage.add_user("ada")
    job = await running(stage)
    await report(stage, job, {**REPORTED, **wrong})
    found = (await placement_of(stage, job, await stage.token(ada))).json()
    assert (found["order"], found["bindings"]) == (list(NODES), [])
    assert found["reason"] == "The job has reported no order of its nodes."


async def test_placement_of_a_job_without_nodes_is_a_conflict(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = (await stage.store.create_job(make_job(owner="ada", project="ada"))).job
    answer = await placement_of(stage, job, await stage.token(ada))
    assert answer.status_code == 409
    assert "has no placement yet: it is PENDING_SUBMIT. Wait until it runs." in answer.text
