"""Advice on a waiting job, as its owner and as other users see it."""

from __future__ import annotations

from uuid import UUID

from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster
from aitne.core.models.job import JobChanges
from aitne.core.models.user import Role
from tests.support.jobs import make_job, make_session
from tests.support.stage import Stage


async def test_the_owner_and_administrators_read_which_jobs_are_in_the_way(stage: Stage) -> None:
    epoch = await stage.add_node()
    (node,) = await stage.store.list_nodes()
    busy = node.model_copy(update={"cpu_used": 6})
    await stage.store.save_cluster(Cluster(nodes=(busy,)), epoch=epoch)
    ada, root = await stage.add_user("ada"), await stage.add_user("eve", Role.ADMIN)
    lab = make_session(owner="ada", project="ada", name="lab")
    wanted = make_job(owner="ada", project="ada", spec={"resources": {"cpu": 8}})
    train = make_job(owner="bob", project="bob", name="train", spec={"resources": {"cpu": 4}})
    member = await stage.add_user("bob")
    await stage.store.save_member("ada", "bob", actor="root")
    for each in (lab, train, wanted):
        await stage.store.create_job(each)
        for state in (JobState.SUBMITTING, JobState.QUEUED):
            await stage.store.transition_job(each.id, state)
    path = f"/api/v1/jobs/{wanted.id}/queue"
    for each in (lab, train):
        await stage.store.transition_job(each.id, JobState.RUNNING, JobChanges(nodes=("node01",)))
    async with stage.client(await stage.token(ada)) as client:
        advice = (await client.get(path)).json()["advice"]
        assert advice[0]["text"].startswith("With 2 CPUs")
        assert [UUID(each["id"]) for each in advice[1]["jobs"]] == [lab.id]
        assert (await client.get(f"/api/v1/jobs/{lab.id}/queue")).json()["advice"] == []
    async with stage.client(await stage.token(root)) as other:
        held = (await other.get(path)).json()["advice"][1]
        assert held["text"] == "Running jobs that use these resources:"
        assert [(each["name"], each["owner"]) for each in held["jobs"]] == [
            ("train", "bob"),
            ("lab", None),
        ]
    async with stage.client(await stage.token(member)) as other:
        advice = (await other.get(path)).json()["advice"]
        assert len(advice) == 1, "other jobs of the owner are not shown"
