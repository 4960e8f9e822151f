"""Bad input: a problem that names the field, its value and what is allowed; nothing is stored."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from aitne.api.job_query_views import AnyJobQuery
from aitne.core.models.job_file import JobFile
from aitne.core.models.user import Role
from tests.support.jobs import make_job
from tests.support.stage import Stage

BAD: dict[str, tuple[dict[str, Any], str, str | None, str]] = {
    # body, the field, its value, a part of message or allowed
    "unknown field": ({"gpus": 1}, "gpus", "1", "resources"),
    "misspelt field": ({"comands": ["x"]}, "comands", "['x']", "did you mean commands"),
    "unknown inner field": (
        {"resources": {"gpus": 1}},
        "resources.gpus",
        "1",
        "cpu, cpus_per_task, gpu, gres, memory",
    ),
    "wrong unit": ({"resources": {"memory": "16 X"}}, "resources.memory", "16 X", "16G"),
    "no unit": ({"resources": {"memory": "16"}}, "resources.memory", "16", "16G"),
    "number as memory": ({"resources": {"memory": 16_000}}, "resources.memory", "16000", "16G"),
    "number as time": ({"max_duration": 3_600}, "max_duration", "3600", "1h30m"),
    "no duration": ({"max_duration": "soon"}, "max_duration", "soon", "1h30m"),
    "no gpu": ({"resources": {"gpu": "many"}}, "resources.gpu", "many", "a100:4"),
    "gpu as object": (
        {"resources": {"gpu": {"count": 0, "x": 1}}},
        "resources.gpu",
        None,
        "a100:4",
    ),
    "cpu as text": ({"resources": {"cpu": "1"}}, "resources.cpu", "1", "must be a whole number"),
    "cpu as truth": ({"resources": {"cpu": True}}, "resources.cpu", "True", "a whole number"),
    "infinite cpu": (
        {"resources": {"cpu": {"$float": "inf"}}},
        "resources.cpu",
        "inf",
        "must be a whole number",
    ),
    "memory as truth": (
        {"resources": {"memory": True}},
        "resources.memory",
        "True",
        "must be a whole number",
    ),
    "no cpu": ({"resources": {"cpu": 0}}, "resources.cpu", "0", "is too small at least 1"),
    "word of sbatch": ({"time": "1h"}, "time", "1h", "did you mean max_duration?"),
    "word of others": ({"depends_on": []}, "depends_on", "[]", "did you mean after?"),
    "one path": ({"datasets": "div2k"}, "datasets", "div2k", "must be a list: write `- div2k`"),
    "long name": ({"name": "x" * 201}, "name", "xxx", "is too long at most 200 characters"),
    "bad project": ({"project": "My Lab"}, "project", "My Lab", "a project name begins with a"),
    "no type": ({"type": "batch"}, "type", "batch", "'job' or 'session'"),
    "never retried": ({"retry": {"on": ["cancelled"]}}, "retry.on", "cancelled", "never retried"),
    "reserved variable": (
        {"env": {"AITNE_JOB_ID": "x"}},
        "env",
        "AITNE_JOB_ID",
        "AITNE_JOB_ID belongs",
    ),
    "no variable": ({"env": {"1A": "x"}}, "env.1A", "1A", "does not begin with a digit"),
    "no text": ({"commands": [["ls"]]}, "commands.0", "['ls']", "must be text"),
    "no object": ({"resources": "big"}, "resources", "big", "object"),
    "no array": ({"array": "9-0"}, "array", "9-0", ""),
    "no id": ({"after": ["x"]}, "after.0", "x", "must be the full id"),
    "no parameter": ({"parameters": {"lr": None}}, "parameters.lr", "None", "number"),
    "relative path": ({"workdir": "here"}, "workdir", "here", "absolute"),
    "too many gpus": ({"resources": {"gpu": 64}}, "resources.gpu", "64", ""),
    "unknown image": ({"image": "nope"}, "image", "nope", "bare"),
    "unknown template": ({"template": "nope", "commands": []}, "template", "nope", "jupyterlab"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input(stage: Stage, name: str) -> None:
    change, field, value, hint = BAD[name]
    await stage.add_node()
    ada = await stage.add_user("ada")
    body = {"commands": ["true"], **change}
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert set(problem) == {
            *("type", "title", "status", "detail", "instance", "code", "problems"),
        }
        assert problem["type"] == f"urn:aitne:problem:{problem['code']}"
        assert problem["instance"] == "/api/v1/jobs"
        (found,) = problem["problems"]
        assert found["field"] == field
        assert value is None or value in str(found["value"])
        assert "$float" not in str(found["value"])
        assert hint in f"{found['message']} {found['allowed']}"
        assert (await client.get("/api/v1/jobs")).json()["total"] == 0


async def test_single_command_and_scalars_of_env_are_accepted(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    body = {"commands": "echo hi", "env": {"A": 1, "B": 0.5, "C": True, "D": "x"}}
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        job = answer.json()
        assert job["commands"] == ["echo hi"]
        assert job["env"] == {"A": "1", "B": "0.5", "C": "true", "D": "x"}


async def test_only_what_belongs_there_is_called_allowed(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        body = {"colour": "red", "resources": {"memory_bytes": 1}}
        answer = await client.post("/api/v1/jobs", json=body)
        allowed = {each["field"]: each["allowed"] for each in answer.json()["problems"]}
        assert allowed == {
            "colour": ", ".join(sorted(JobFile.model_fields)),
            "resources.memory_bytes": "cpu, cpus_per_task, gpu, gres, memory, nodes, sbatch_options, "
            "tasks_per_node",
        }
        (found,) = (await client.get("/api/v1/jobs?colour=red")).json()["problems"]
        assert found["allowed"] == ", ".join(sorted(AnyJobQuery.model_fields))


async def test_a_body_of_another_kind_is_told_how_to_be_sent(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await client.post("/api/v1/jobs", content=b'{"name": "x"}', headers=headers)
    assert answer.status_code == 422
    assert "set Content-Type" in answer.json()["detail"]
    assert answer.json()["problems"][0]["allowed"] == "application/json"


async def test_every_wrong_field_is_named_at_once(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        body = {"nam": "x", "max_duration": "soon", "resources": {"cpu": -1, "memory": "x"}}
        problems = (await client.post("/api/v1/jobs", json=body)).json()["problems"]
    fields = {each["field"] for each in problems}
    assert fields == {"nam", "max_duration", "resources.cpu", "resources.memory"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b"", 422),
        (b'"text"', 422),
        (b"\xff\xfe", 400),
        (b"[" * 200_000, 400),
        (b'{"name": "\\ud800", "commands": ["true"]}', 422),
        (b'{"name": ' + b"1" * 6_000 + b"}", 422),
        (b'{"x":' + b" " * (1 << 20) + b"1}", 413),
    ],
)
async def test_a_body_that_is_no_job_file(stage: Stage, body: bytes, status: int) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post(
            "/api/v1/jobs", content=body, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code in (status, 400, 422) if status < 413 else status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 3_000


async def test_bad_queries_are_named_too(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        for query, field, hint in (
            ("stat=RUNNING", "stat", "did you mean state"),
            ("state=BUSY", "state", "RUNNING"),
            ("limit=0", "limit", "at least 1"),
            ("cursor=nonsense", "cursor", ""),
            ("owner=No+Body", "owner", "a user name begins with a letter"),
        ):
            answer = await client.get(f"/api/v1/jobs?{query}")
            assert answer.status_code == 422, query
            (problem,) = answer.json()["problems"]
            assert problem["field"].split(".")[0] == field
            assert hint in f"{problem['message']} {problem['allowed']}"


async def test_missing_resource_or_method_returns_problem_document(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        for method, path, status, code in (
            ("GET", "/api/v1/nothing", 404, "not_found"),
            ("GET", f"/api/v1/jobs/{uuid4()}", 404, "not_found"),
            ("GET", "/api/v1/jobs/7", 422, "invalid_input"),
            ("GET", "/api/v1/templates/nope", 404, "not_found"),
            ("DELETE", "/api/v1/jobs", 405, "method_not_allowed"),
            ("POST", "/api/v1/nothing", 404, "not_found"),
            ("POST", "/nowhere", 404, "not_found"),
            ("GET", "/agent/v1/nothing", 404, "not_found"),
        ):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (status, code), path
            assert answer.headers["content-type"] == "application/problem+json"


async def test_allowed_methods_of_path_are_returned(stage: Stage) -> None:
    async with stage.client() as client:
        answers = [
            await client.request(method, f"/api/v1/{path}")
            for method, path in [("DELETE", "jobs"), ("OPTIONS", "jobs"), ("GET", "auth/login")]
        ]
    assert [(each.status_code, each.headers["allow"]) for each in answers] == [
        (405, "GET, POST"),
        (405, "GET, POST"),
        (405, "POST"),
    ]


async def test_a_bug_shows_a_number_and_nothing_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ada = await stage.add_user("ada")

    def broken() -> None:
        raise RuntimeError("the secret word is quince")

    monkeypatch.setattr(stage.platform.templates, "templates", broken)
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/templates")
    assert answer.status_code == 500
    assert "quince" not in answer.text
    assert answer.json()["code"] == "internal"
    number = answer.json()["detail"].split()[-1].rstrip(".")
    assert number in caplog.text
    assert "the secret word is quince" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted"',
        "two\nlines\r\nand #SBATCH --uid=0",
        "$(touch /tmp/x) `id` ${HOME}",
        "emoji 🪐 and ünïcode",
        "x" * 200,
        "-rf --",
        "<script>alert(1)</script>",
    ],
)
async def test_strange_names_come_back_unchanged(stage: Stage, name: str) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        made = await client.post(
            "/api/v1/jobs", json={"name": name, "commands": ["true"], "env": {"X": name}}
        )
        assert made.status_code == 201, made.text
        got = (await client.get(f"/api/v1/jobs/{made.json()['id']}")).json()
        assert (got["name"], got["env"]["X"]) == (name, name)


async def test_job_of_other_user_looks_like_missing_job(stage: Stage) -> None:
    bob = await stage.add_user("bob")
    job = make_job(owner="ada", project="vision")
    await stage.store.create_job(job)
    async with stage.client(await stage.token(bob)) as client:
        theirs = await client.get(f"/api/v1/jobs/{job.id}")
        none = await client.get(f"/api/v1/jobs/{uuid4()}")
    assert theirs.status_code == none.status_code == 404
    assert theirs.json()["title"] == none.json()["title"]


@pytest.mark.parametrize("query", ["since=1&since=2", "limit=1&limit=2&state=RUNNING"])
async def test_query_parameters_with_one_value_are_refused_when_sent_twice(
    stage: Stage, query: str
) -> None:
    root = await stage.add_user("root", role=Role.ADMIN)
    path = "admin/audit" if "since" in query else "jobs"
    async with stage.client(await stage.token(root)) as client:
        answer = await client.get(f"/api/v1/{path}?{query}")
        assert answer.status_code == 422
        problem = answer.json()["problems"][0]
        assert problem["field"] == query.partition("=")[0]
        assert "more than once" in problem["message"]


async def test_query_parameters_with_several_values_may_be_repeated(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/jobs?state=RUNNING&state=FAILED&limit=1")
    assert answer.status_code == 200
