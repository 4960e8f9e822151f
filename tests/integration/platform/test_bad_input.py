"""Wrong and hostile input to a complete platform is refused or returned unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import realtime
from tests.support.platform import RunningPlatform, run_platform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

SMALL = {"cpu": 1, "memory": "64M"}
NASTY = [
    "quotes \"' `touch pwned` $(touch pwned)\n#SBATCH --gres=gpu:9\n🚀",
    "'; touch pwned; '",
    "\r\n\x1b[31mred\x07\\ %s ${IFS} {{7*7}}",
    "--help",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of templates, one of them wrong."""
    folder = tmp_path_factory.mktemp("site")
    good = "name: {}\nversion: 1.0.0\ntitle: Ours\ntype: job\nimage: bare\ncommands: ['true']\n"
    (folder / "good.yaml").write_text(good.format("ours"))
    (folder / "bad.yaml").write_text(good.format("theirs") + "colour: red\n")
    return folder


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[RunningPlatform]:
    config = f"templates = [{json.dumps(str(site))}]\n"
    with run_platform(RunningPlatform(tmp_path_factory.mktemp("platform"), config)) as running:
        yield running


@pytest.fixture
def api(platform: RunningPlatform) -> Iterator[httpx.Client]:
    with client(platform, platform.token) as found:
        yield found


def client(platform: RunningPlatform, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{platform.url}/api/v1/",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=30,
    )


@pytest.fixture
def stores_nothing(api: httpx.Client) -> Iterator[None]:
    before = api.get("jobs").json()["total"]
    yield
    assert api.get("jobs").json()["total"] == before


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize(
    ("fields", "field", "value", "allowed"),
    [
        (
            {"colour": "red"},
            "colour",
            "red",
            "after, afterany, aftercorr, afternotok, args, array, begin, commands, container, datasets, ",
        ),
        ({"resources": {"gpu": 99}}, "resources.gpu", "99", "0"),
        ({"resources": {"cpu": 4_000}}, "resources.cpu", "4000", "1 to "),
        ({"resources": {"memory": "900T"}}, "resources.memory", "900 TiB", "at most "),
        (
            {"template": "nope", "commands": []},
            "template",
            "nope",
            "batch, distributed-train, jupyterlab",
        ),
        ({"image": "nope"}, "image", "nope", "bare"),
        ({"project": "nope"}, "project", "nope", ""),
        ({"max_duration": "900d"}, "max_duration", "900d", "at most 7d"),
        ({"array": "0-9999"}, "array", "0-9999", ""),
        ({"workdir": "/no/such/folder"}, "workdir", "/no/such/folder", ""),
        (
            {"environment": {"venv": "/no/such/venv"}},
            "environment.venv",
            "/no/such/venv",
            "",
        ),
    ],
)
def test_a_job_that_cannot_be_is_a_problem_and_exit_status_2(
    platform: RunningPlatform,
    api: httpx.Client,
    tmp_path: Path,
    fields: dict[str, Any],
    field: str,
    value: str,
    allowed: str,
) -> None:
    job_file = {"commands": ["true"], **fields}
    answer = api.post("jobs", json=job_file)
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert (problem["field"], problem["value"]) == (field, value)
    assert (problem["allowed"] or "").startswith(allowed)
    path = tmp_path / "job.aitne.yml"
    path.write_text(json.dumps(job_file))
    done = platform.aitne("apply", "-f", str(path), "--yes", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["problems"][0]["field"] == field
    assert field in done.stderr


def test_job_file_text_is_neither_executed_nor_changed(
    platform: RunningPlatform, api: httpx.Client, tmp_path: Path
) -> None:
    made = []
    for text in NASTY:
        path = tmp_path / "job.aitne.yml"
        quoted = text.replace("'", "'\\''")
        commands = [f"printf '%s|' \"$NASTY\" '{quoted}' \"$AITNE_PARAM_NOTE\""]
        fields = {"name": text, "commands": commands, "env": {"NASTY": text}, "resources": SMALL}
        path.write_text(json.dumps({**fields, "workdir": str(tmp_path)}))
        done = platform.aitne("apply", "-f", str(path), "--yes", "--wait", "--json")
        assert done.returncode == 0, done.stderr
        job = json.loads(done.stdout)
        assert (job["name"], job["commands"], job["env"]) == (text, commands, {"NASTY": text})
        assert api.get(f"jobs/{job['id']}").json()["name"] == text
        assert api.get(f"jobs/{job['id']}/logs").content.decode() == f"{text}|{text}||"
        made.append(text)
    listed = [job["name"] for job in json.loads(platform.aitne("ps", "--all", "--json").stdout)]
    assert listed[: len(made)] == made[::-1]
    assert "\x1b" not in platform.aitne("ps", "--all").stdout
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("job_file", "state", "message"),
    [
        (
            {"environment": {"setup": ["(exit 7)"]}, "commands": ["echo never"]},
            "FAILED",
            "Line 1 of the environment's setup failed with exit code 7 on node ",
        ),
    ],
)
def test_missing_requirement_on_node_is_named_in_job_message(
    api: httpx.Client, job_file: dict[str, Any], state: str, message: str
) -> None:
    job = api.post("jobs", json={**job_file, "resources": SMALL}).json()
    ended = _ended(api, job["id"])
    assert (ended["state"], ended["reason"]) == (state, "start_failed")
    assert ended["message"].startswith(message)
    assert "never" not in api.get(f"jobs/{job['id']}/logs").text.splitlines()


def test_a_job_that_takes_too_much_ends_as_its_plan_says(api: httpx.Client) -> None:
    greedy = {"commands": ["python3 -c 'x = bytearray(300 << 20)'"], "resources": SMALL}
    memory = api.post("/jobs:plan", json=greedy).json()["enforcement"][0]
    assert memory.startswith("Memory: ")
    assert "64 MiB" in memory
    ended = _ended(api, api.post("jobs", json=greedy).json()["id"])
    assert (ended["state"], ended["reason"]) == ("OUT_OF_MEMORY", "out_of_memory")
    assert "memory" in ended["message"]


def _ended(api: httpx.Client, job_id: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(f"jobs/{job_id}").json()
        return found if found["ended_at"] else None

    found = eventually("the job has ended", over)
    assert found is not None
    return found


def test_a_parameter_reaches_the_program_as_it_was_written(api: httpx.Client) -> None:
    text = f"printf '%s' {NASTY[0].splitlines()[1]!r} # $(touch pwned) 🚀"
    fields = {"template": "batch", "parameters": {"command": text}, "resources": SMALL}
    job = api.post("jobs", json=fields).json()
    with api.stream("GET", f"jobs/{job['id']}/logs?follow=true") as log:
        written = b"".join(log.iter_raw()).decode()
    assert written == "#SBATCH --gres=gpu:9"
    assert api.get(f"jobs/{job['id']}").json()["parameters"]["command"] == text


def test_a_wrong_template_is_named_and_the_others_serve(
    platform: RunningPlatform, site: Path
) -> None:
    done = platform.aitne("template", "ls", "--json")
    assert done.returncode == 0
    assert {"batch", "jupyterlab", "ours"} <= {each["name"] for each in json.loads(done.stdout)}
    assert done.stderr == f"Rejected {site}/bad.yaml:7: colour is not a known field\n"


def test_job_of_other_user_is_not_found(
    platform: RunningPlatform, api: httpx.Client, tmp_path: Path
) -> None:
    assert platform.aitne("admin", "user", "create", "mallory").returncode == 0
    made = platform.aitne("admin", "token", "create", "--user", "mallory", "--name", "t", "--json")
    token = json.loads(made.stdout)["token"]
    job = api.post("jobs", json={"commands": ["true"], "resources": SMALL}).json()["id"]
    calls: list[Callable[[httpx.Client], httpx.Response]] = [
        lambda other: other.get(f"jobs/{job}"),
        lambda other: other.get(f"jobs/{job}/logs"),
        lambda other: other.post(f"jobs/{job}/cancel"),
        lambda other: other.post(f"jobs/{job}/resubmit"),
        lambda other: other.post(f"sessions/{job}/open"),
    ]
    with client(platform, token) as other:
        assert [call(other).status_code for call in calls] == [404] * len(calls)
        waits = other.post("jobs", json={"commands": ["true"], "after": [job]})
        assert (waits.status_code, waits.json()["problems"][0]["value"]) == (422, job)
        assert platform.aitne("admin", "user", "disable", "mallory", "--yes").returncode == 0
        assert other.get("me").status_code == 401


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no fields"),
        ("commands: [x]\nname: a\nname: b\n", ":3: name is given twice"),
        ("commands: &a [*a]\n", "nested too deeply"),
        ("name: !!binary aGk=\n", ":1: not YAML"),
    ],
)
def test_a_file_that_is_no_job_file_is_one_sentence(
    platform: RunningPlatform, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "job.aitne.yml"
    path.write_text(text)
    done = platform.aitne("apply", "-f", str(path), "--yes")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
