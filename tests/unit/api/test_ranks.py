"""Ranks of a session: started, listed and released by its owner."""

from __future__ import annotations

from typing import Any

import httpx

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.user import Actor, Role
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart
from tests.support.jobs import CREATED_AT, make_session
from tests.support.stage import Stage

NODE = Node(
    name="node01",
    state=NodeState.MIXED,
    cpu_total=2,
    cpu_used=1,
    memory_total_bytes=16 << 30,
    memory_used_bytes=1 << 30,
    seen_at=CREATED_AT,
)
RUNNING = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
SPEC: dict[str, Any] = {"env": {"LR": "0.1", "AITNE_PARAM_ROOT": "~"}, "workdir": "/tmp"}


async def session_of(stage: Stage, owner: Actor, *states: JobState, **fields: Any) -> Job:
    project = owner.user.default_project
    session = make_session(owner=owner.name, project=project, name="look", spec=SPEC, **fields)
    await stage.store.create_job(session)
    for state in states:
        await stage.store.transition_job(session.id, state)
    return session


async def end(stage: Stage, job_id: Any) -> None:
    changes = JobChanges(ended_at=stage.clock.now)
    await stage.store.transition_job(job_id, JobState.COMPLETED, changes)


def problems(answer: httpx.Response) -> dict[str, tuple[str, str | None]]:
    assert answer.status_code == 422, answer.text
    return {each["field"]: (each["message"], each["allowed"]) for each in answer.json()["problems"]}


async def test_ranks_are_planned_started_listed_and_released(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    session = await session_of(stage, ada, *RUNNING)
    path = f"/api/v1/sessions/{session.id}/ranks"
    body = {"ranks": 4, "memory": "1G", "max_duration": "2h", "idle": "30m"}
    async with stage.client(await stage.token(ada)) as client:
        plan = (await client.post(f"{path}:plan", json=body)).json()
        assert plan["fits"]
        assert plan["starts_now"]
        assert plan["spec"]["resources"]["memory_bytes"] == 4 << 30
        assert (await client.get(path)).json()["total"] == 0, "a plan stores nothing"

        key = {"Idempotency-Key": "once"}
        made = await client.post(path, json=body, headers=key)
        assert made.status_code == 201, made.text
        group = made.json()
        assert made.headers["location"] == f"/api/v1/jobs/{group['id']}"
        assert (await client.post(path, json=body, headers=key)).json()["id"] == group["id"]
        assert (group["type"], group["name"]) == ("job", "Ranks of look")
        assert group["session_id"] == str(session.id)
        assert group["rank_group"] == {
            "session": str(session.id),
            "idle_s": 1_800,
            "python": None,
        }
        assert (group["env"], group["workdir"]) == ({"LR": "0.1"}, "/tmp")
        assert (group["commands"], group["distributed"]["ranks_per_node"]) == ([], 4)
        assert "resubmit" not in group["actions"]

        await session_of(stage, ada, *RUNNING)
        listed = (await client.get(path)).json()
        assert [each["id"] for each in listed["items"]] == [group["id"]]
        events = (await client.get(f"/api/v1/jobs/{group['id']}/events")).json()["items"]
        assert events[0]["data"]["session_id"] == str(session.id), "pages of the session follow it"

        released = await client.post(f"{path}/{group['id']}/release")
        assert released.status_code == 202
        assert released.json()["message"] == "Released by ada."
        assert (await client.get(path, params={"state": "PENDING_SUBMIT"})).json()["total"] == 0

        again = (await client.post(path, json=body)).json()
        every = (await client.post(f"{path}/release")).json()
        assert [each["id"] for each in every["items"]] == [again["id"]]
        assert (await client.post(f"{path}/release")).json()["items"] == []
    assert not (await stage.store.get_job(session.id)).state.is_terminal


async def test_ranks_beyond_the_limits_are_refused_by_the_fields_of_the_request(
    stage: Stage,
) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    session = await session_of(stage, ada, *RUNNING)
    path = f"/api/v1/sessions/{session.id}/ranks"
    async with stage.client(await stage.token(ada)) as client:
        uneven = problems(await client.post(path, json={"ranks": 16, "nodes": 3}))
        assert uneven["nodes"] == (
            "16 ranks cannot be distributed evenly: 16 is not divisible by 3",
            "1, 2, 4, 8, 16 nodes, or another number of ranks",
        )
        for body, field in (
            ({"ranks": 100}, "cpu"),
            ({"ranks": 2, "memory": "100G"}, "memory"),
            ({"ranks": 4, "gpu": "a100"}, "gpu"),
            ({"ranks": 100, "nodes": 100}, "nodes"),
            ({"ranks": 1, "max_duration": "900d"}, "max_duration"),
            ({"ranks": 1, "slurm": {"partition": "gpu"}}, "slurm"),
        ):
            for target in (path, f"{path}:plan"):
                answer = await client.post(target, json=body)
                assert field in problems(answer), answer.text
        assert (await client.get(path)).json()["total"] == 0


async def test_ranks_are_refused_where_the_python_of_the_nodes_is_too_old(stage: Stage) -> None:
    await stage.add_node()
    content = {**part_to_record(TopologyPart()), "python": "3.9", "owner": "ada"}
    await stage.store.save_topology(TopologyOrigin.NODES, "node01", content)
    ada = await stage.add_user("ada")
    session = await session_of(stage, ada, *RUNNING)
    path = f"/api/v1/sessions/{session.id}/ranks"
    async with stage.client(await stage.token(ada)) as client:
        for target in (path, f"{path}:plan"):
            sentence, remedy = problems(await client.post(target, json={"ranks": 1}))["nodes"]
            assert "need Python 3.11 or newer" in sentence
            assert "(node01) have Python 3.9" in sentence
            assert remedy is not None
        own = await client.post(f"{path}:plan", json={"ranks": 1, "python": "/opt/python3.12"})
        assert own.status_code == 200, own.text
        assert (await client.get(path)).json()["total"] == 0


async def test_only_a_session_that_runs_has_ranks(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    waits = await session_of(stage, ada)
    ended = await session_of(stage, ada, *RUNNING)
    await end(stage, ended.id)
    runs = await session_of(stage, ada, *RUNNING)
    async with stage.client(await stage.token(ada)) as client:

        async def start(job_id: object) -> httpx.Response:
            return await client.post(f"/api/v1/sessions/{job_id}/ranks", json={"ranks": 1})

        for session, words in (
            (waits, "Session look is PENDING_SUBMIT, and ranks can be started only while it runs."),
            (ended, "Session look has ended: it is COMPLETED, so no ranks can serve it."),
        ):
            answer = await start(session.id)
            assert answer.status_code == 409
            assert words in answer.json()["detail"]
        group = (await start(runs.id)).json()
        answer = await start(group["id"])
        assert answer.status_code == 404
        assert f"is a rank group of session {runs.id}" in answer.json()["detail"]
        job = (await client.post("/api/v1/jobs", json={"commands": ["true"]})).json()
        assert (await start(job["id"])).status_code == 404
        other = f"/api/v1/sessions/{waits.id}/ranks/{group['id']}/release"
        assert (await client.post(other)).status_code == 404, "it belongs to another session"
        stopped = await client.post(f"/api/v1/sessions/{runs.id}/stop")
        assert stopped.status_code == 202
        assert (await start(runs.id)).status_code == 409


async def test_rank_group_is_not_resubmitted(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    session = await session_of(stage, ada, *RUNNING)
    async with stage.client(await stage.token(ada)) as client:
        path = f"/api/v1/sessions/{session.id}/ranks"
        group = (await client.post(path, json={"ranks": 1})).json()
        await client.post(f"{path}/release")
        again = f"/api/v1/jobs/{group['id']}/resubmit"
        for answer in (await client.post(again), await client.get(again)):
            assert answer.status_code == 409
            assert "belongs to a session and cannot be resubmitted" in answer.json()["detail"]
        file = await client.get(f"/api/v1/jobs/{group['id']}/file")
        assert file.status_code == 409
        assert "A rank group has no job file" in file.json()["detail"]


async def test_ranks_belong_to_the_owner_and_administrators_may_cancel_them(stage: Stage) -> None:
    await stage.add_node()
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    root = await stage.add_user("root", Role.ADMIN)
    session = await session_of(stage, ada, *RUNNING)
    path = f"/api/v1/sessions/{session.id}/ranks"
    async with stage.client(await stage.token(ada)) as client:
        group = (await client.post(path, json={"ranks": 1})).json()
    async with stage.client(await stage.token(bob)) as client:
        for answer in (
            await client.post(path, json={"ranks": 1}),
            await client.get(path),
            await client.post(f"{path}/release"),
            await client.get(f"/api/v1/jobs/{group['id']}"),
        ):
            assert answer.status_code == 404
    async with stage.client(await stage.token(root)) as client:
        assert (await client.get(path)).json()["total"] == 1
        assert (await client.post(path, json={"ranks": 1})).status_code == 403
        assert (await client.post(f"{path}/release")).status_code == 403
        cancelled = await client.post(f"/api/v1/jobs/{group['id']}/cancel")
        assert cancelled.json()["message"] == "Cancelled by root."


async def test_ranks_that_can_never_start_beside_their_session_are_refused(stage: Stage) -> None:
    epoch = await stage.add_node()
    cluster = Cluster(nodes=(NODE,))
    await stage.store.save_cluster(cluster, epoch=epoch)
    ada = await stage.add_user("ada")
    session = await session_of(stage, ada, *RUNNING, nodes=("node01",))
    path = f"/api/v1/sessions/{session.id}/ranks"
    async with stage.client(await stage.token(ada)) as client:
        for target in (path, f"{path}:plan"):
            refused = problems(await client.post(target, json={"ranks": 2}))
            assert refused == {
                "ranks": (
                    "2 ranks cannot start while session look runs, which holds a part of what they "
                    "need; 1 rank can",
                    "1",
                )
            }
        assert (await client.post(path, json={"ranks": 1})).status_code == 201
