"""The jobs page's own routes: order, filters, counts, bulk cancel, preferences, capacity, job files."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Role
from tests.support.jobs import make_array, make_job, make_session
from tests.support.stage import Stage

GPUS = [0, 4, 2, 2]


async def jobs(stage: Stage, owner: str, **more: Any) -> list[str]:
    made = []
    for number, gpus in enumerate(GPUS):
        job = make_job(
            owner=owner,
            project=more.get("project", owner),
            name=f"{owner} {number}",
            spec={"resources": {"gpu": {"count": gpus}}, "template": "pytorch"},
        )
        await stage.store.create_job(job)
        made.append(str(job.id))
    return made


async def test_a_list_is_sorted_page_by_page(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await jobs(stage, "ada")
    async with stage.client(await stage.token(ada)) as client:
        query: dict[str, Any] = {"sort": "gpus", "order": "asc", "limit": 3}
        first = (await client.get("/api/v1/jobs", params=query)).json()
        query["cursor"] = first["next_cursor"]
        rest = (await client.get("/api/v1/jobs", params=query)).json()
        shown = [job["resources"]["gpu"]["count"] for job in first["items"] + rest["items"]]
        assert shown == sorted(GPUS)
        query["sort"] = "name"
        assert (await client.get("/api/v1/jobs", params=query)).status_code == 422
        query = {"min_gpus": 2, "template": "pytorch", "created_from": "2026-01-01T00:00:00Z"}
        assert (await client.get("/api/v1/jobs", params=query)).json()["total"] == 3
        assert (await client.get("/api/v1/jobs?created_before=2026-01-01T00:00:00Z")).json()[
            "total"
        ] == 0
        assert (await client.get("/api/v1/jobs?node=../x")).status_code == 422
        counts = (await client.get("/api/v1/jobs:count?min_gpus=2")).json()
        assert counts == {"total": 3, "live": 3, "states": {"PENDING_SUBMIT": 3}}


async def test_many_are_cancelled_and_each_is_judged_by_itself(stage: Stage) -> None:
    ada = await stage.add_user("ada", project="vision")
    await stage.add_user("bob", project="vision")
    await stage.add_user("eve")
    mine, *_ = await jobs(stage, "ada", project="vision")
    done = make_job(owner="ada", state=JobState.COMPLETED)
    await stage.store.create_job(done)
    lab = make_session(owner="ada")
    await stage.store.create_job(lab)
    bobs, *_ = await jobs(stage, "bob", project="vision")
    eves, *_ = await jobs(stage, "eve")
    strange = str(uuid4())
    ids = [mine, str(done.id), str(lab.id), bobs, eves, strange, mine]
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post("/api/v1/jobs:cancel", json={"ids": ids})
    assert answer.status_code == 202
    found = answer.json()
    assert {each["id"]: each["outcome"] for each in found["items"]} == {
        mine: "asked",
        str(done.id): "ended",
        str(lab.id): "asked",
        bobs: "not_allowed",
        eves: "not_found",
        strange: "not_found",
    }
    assert found["requested"] == 2
    hidden = [each for each in found["items"] if each["outcome"] == "not_found"]
    assert [each["name"] for each in hidden] == [None, None]
    assert (await stage.store.get_job(lab.id)).message == "Stopped by ada."
    left = await stage.store.list_live_jobs()
    assert str(bobs) in {str(job.id) for job in left}
    assert str(eves) in {str(job.id) for job in left}


async def test_all_that_match_are_cancelled_only_if_they_were_seen(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    ids = await jobs(stage, "ada")
    array, tasks = make_array("0-4", owner="ada", name="sweep")
    await stage.store.create_job(array, tasks)
    async with stage.client(await stage.token(ada)) as client:

        async def cancel(expected: int, **where: Any) -> Any:
            body = {"filter": where, "expected": expected}
            return await client.post("/api/v1/jobs:cancel", json=body)

        refused = await cancel(3, q="ada")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert "4 jobs" in refused.json()["detail"]
        assert len(await stage.store.list_live_jobs()) == 10
        done = await cancel(4, q="ada")
        assert {each["id"] for each in done.json()["items"]} == {*ids}
        assert (await cancel(0, q="ada")).json() == {"requested": 0, "asked": 0, "items": []}
        assert (await cancel(0, q="ada", state=["FAILED"])).json()["requested"] == 0
        assert (await cancel(1, q="sweep", top_level=True)).json()["requested"] == 1
    assert await stage.store.list_live_jobs() == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ids": []},
        {"filter": {}},
        {"expected": 1},
        {"ids": [str(uuid4())], "filter": {}, "expected": 1},
        {"filter": {}, "expected": 1_001},
        {"filter": {"colour": "red"}, "expected": 1},
        {"ids": [str(uuid4()) for _ in range(1_001)]},
    ],
)
async def test_a_bulk_wish_has_to_be_clear(stage: Stage, body: dict[str, Any]) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        assert (await client.post("/api/v1/jobs:cancel", json=body)).status_code == 422


async def test_a_token_that_may_only_read_cancels_nothing(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    ids = await jobs(stage, "ada")
    async with stage.client(await stage.token(ada, Scope.READ)) as client:
        answer = await client.post("/api/v1/jobs:cancel", json={"ids": ids})
    assert answer.status_code == 403
    assert len(await stage.store.list_live_jobs()) == len(ids)


async def test_preferences_are_kept_for_each_user(stage: Stage) -> None:
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    view = {"name": "Failed", "search": {"state": ["FAILED"], "q": "x"}, "sort": "ended"}
    launch = {
        "title": "Lab",
        "launched_at": "2026-03-01T12:00:00Z",
        "file": {"type": "session", "resources": {"gpu": "a100:1"}, "max_duration": "4h"},
    }
    async with stage.client(await stage.token(ada)) as client:
        url = "/api/v1/me/preferences/job_views"
        first = await client.get(url)
        assert first.json() == {"columns": [], "views": []}
        seen = {"If-Match": first.headers["etag"]}
        put = await client.put(url, json={"views": [view]}, headers=seen)
        assert put.status_code == 200
        assert (await client.get(url)).json()["views"][0]["search"]["state"] == ["FAILED"]
        assert (await client.get(url)).headers["etag"] == put.headers["etag"]
        late = await client.put(url, json={}, headers=seen)
        assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
        url = "/api/v1/me/preferences/last_launch"
        assert (await client.put(url, json={"items": [launch]})).status_code == 200
        again = (await client.get(url)).json()["items"][0]["file"]
        # What comes out can be submitted as it is.
        plan = await client.post("/api/v1/jobs:plan", json=again)
        assert plan.json().get("problems", [{}])[0].get("field") != "body"
        url = "/api/v1/me/preferences/portal"
        assert (await client.put(url, json={"theme": "pink"})).status_code == 422
        assert (await client.put(url, json={"theme": "dark"})).json() == {
            "theme": "dark",
            "language": None,
        }
        assert (await client.get("/api/v1/me/preferences/other")).status_code == 404
    async with stage.client(await stage.token(bob)) as client:
        assert (await client.get(url)).json()["theme"] == "auto"
    async with stage.client(await stage.token(bob, Scope.READ)) as client:
        assert (await client.put(url, json={})).status_code == 403
    async with stage.client() as client:
        assert (await client.get(url)).status_code == 401


async def test_presets_have_a_template_and_a_name_of_their_own(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    url = "/api/v1/me/preferences/templates"

    def preset(name: str, template: str | None) -> dict[str, object]:
        return {"name": name, "file": {"template": template, "resources": {"cpu": 4}}}

    async with stage.client(await stage.token(ada)) as client:
        assert (await client.get(url)).json() == {"pinned": [], "presets": []}
        presets = [preset("Long", "batch"), preset("Long", "train")]
        kept = await client.put(url, json={"pinned": ["batch"], "presets": presets})
        assert kept.status_code == 200
        answer = (await client.get(url)).json()
        assert [entry["file"]["template"] for entry in answer["presets"]] == ["batch", "train"]
        assert answer["presets"][0]["file"]["resources"]["cpu"] == 4
        for refused in ([preset("Long", None)], [preset("A", "batch"), preset("A", "batch")]):
            assert (await client.put(url, json={"presets": refused})).status_code == 422
        assert (await client.get(url)).json() == answer


async def test_preferences_that_only_another_release_knows_are_ignored(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await stage.store.save_preference("ada", "portal", {"theme": "dark", "sound": "loud"})
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/me/preferences/portal")
    assert answer.json() == {"language": None, "theme": "dark"}


async def test_capacity_tells_of_nobody(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/cluster/capacity")
    assert answer.status_code == 200
    assert answer.json()["gpus"] == []


async def test_a_batch_script_becomes_a_job_file(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    script = "#!/bin/bash\n#SBATCH -t 90\n#SBATCH -e x\npython a.py\n"
    async with stage.client(await stage.token(ada)) as client:
        found = (await client.post("/api/v1/jobs:import", json={"script": script})).json()
        assert found["file"] == {
            "commands": [script],
            "max_duration": "1h30m",
            "log_files": ["slurm-%j.out", "x"],
        }
        assert found["yaml"].startswith("commands:\n  - |\n    #!/bin/bash\n    #SBATCH -t 90\n")
        noted = [(note["line"], note["option"]) for note in found["notes"]]
        assert noted == [(1, "workdir"), (3, "--error")]
        bad = await client.post("/api/v1/jobs:import", json={"script": "\0"})
        assert (bad.status_code, bad.json()["problems"][0]["field"]) == (422, "script")


async def test_a_job_gives_its_file_to_those_who_see_it(stage: Stage) -> None:
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve")
    root = await stage.add_user("root", Role.ADMIN)
    job = make_job(owner="ada", project="ada", name="x")
    await stage.store.create_job(job)
    for actor, status in ((ada, 200), (eve, 404), (root, 200)):
        async with stage.client(await stage.token(actor)) as client:
            answer = await client.get(f"/api/v1/jobs/{job.id}/file")
            assert answer.status_code == status
            if status == 200:
                assert answer.json()["file"]["commands"] == ["python train.py"]
