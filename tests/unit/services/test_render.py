"""What the scheduler and the agent are given."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aitne.adapters.node_software import SoftwareFolder, own_software
from aitne.core.agent_protocol import AgentSpec
from aitne.core.errors import InvalidInput
from aitne.core.models.job import Job
from aitne.core.settings import Settings
from aitne.services.render import Renderer
from tests.support.jobs import make_array, make_job, make_session
from tests.support.runtimes import FakeRuntime

SETTINGS = Settings(data_dir=Path("/srv/aitne"), port=9000)
RUNTIMES = {
    "bare": FakeRuntime(),
    "apptainer": FakeRuntime("apptainer", ("pytorch", "jax")),
}


@pytest.fixture
def renderer() -> Renderer:
    return Renderer(SETTINGS, RUNTIMES, own_software())


def sent(renderer: Renderer, job: Job) -> AgentSpec:
    request = renderer.submit_request(job, (), "secret")
    return AgentSpec.model_validate_json(request.files["agent.json"])


def test_images_name_their_runtime(renderer: Renderer) -> None:
    assert renderer.images() == {"bare": "bare", "pytorch": "apptainer", "jax": "apptainer"}


def test_each_command_is_a_program_of_its_own(renderer: Renderer) -> None:
    spec = sent(renderer, make_job(spec={"commands": ("a && b", "c"), "env": {"X": "1"}}))
    assert spec.commands == (("bash", "-c", "a && b"), ("bash", "-c", "c"))
    assert spec.env == {"VIRTUAL_ENV": "/session", "X": "1"}
    assert spec.path == ("/session/bin",)
    assert (spec.workdir, spec.platform_url) == ("~", "http://127.0.0.1:9000")


def test_a_users_variable_wins_over_the_runtimes(renderer: Renderer) -> None:
    assert sent(renderer, make_job(spec={"env": {"PATH": "/mine"}})).env["PATH"] == "/mine"


def test_a_session_starts_its_launcher_in_the_session_environment(renderer: Renderer) -> None:
    (app,) = sent(renderer, make_session()).apps
    launcher = own_software().launcher
    assert app.argv == ("/session/bin/python", str(launcher))
    assert (app.kind, app.readiness_path, app.timeout_s) == ("jupyterhub", "/", 120)
    assert Path(launcher).is_file()


def test_on_slurm_the_nodes_own_python_runs_the_agent_from_the_shared_folder() -> None:
    settings = Settings(
        data_dir=Path("/srv/aitne"),
        port=9000,
        scheduler="slurm",
        slurm={"software_dir": "/shared/sw", "portal_address": "http://portal:9000/"},
    )
    renderer = Renderer(settings, RUNTIMES, SoftwareFolder(settings).software())
    job = make_session()
    last = renderer.script(job).splitlines()[-1]
    assert re.fullmatch(
        r'exec /usr/bin/python3 -I /shared/sw/agent-[0-9a-f]{12}\.pyz "\$AITNE_JOB_DIR"', last
    )
    spec = sent(renderer, job)
    assert (spec.platform_url, spec.listen) == ("http://portal:9000", "node")
    (app,) = spec.apps
    assert re.fullmatch(r"/shared/sw/lab-[0-9a-f]{12}/launcher\.py", app.argv[1])


def test_the_token_travels_only_as_a_file(renderer: Renderer) -> None:
    request = renderer.submit_request(make_job(), ("7", "8"), "secret")
    assert request.files["token"] == b"secret"
    assert request.after == ("7", "8")
    assert "secret" not in request.model_dump_json(exclude={"files"})
    assert b"secret" not in request.files["agent.json"]
    assert json.loads(request.files["agent.json"])["protocol"] == 1


def test_tasks_share_their_arrays_folder(renderer: Renderer) -> None:
    array, tasks = make_array("0-9%2")
    request = renderer.submit_request(array, (), "t")
    assert (request.job_id, request.array) == (array.id, "0-9%2")
    assert request.job_dir == f"/srv/aitne/jobs/{array.id}/1"
    again = tasks[3].model_copy(update={"attempt": 2})
    request = renderer.submit_request(again, (), "t")
    assert (request.job_id, request.attempt, request.array) == (array.id, 2, "3")
    assert request.job_dir == f"/srv/aitne/jobs/{array.id}/2"
    assert sent(renderer, again).job_id == array.id


def test_a_runtime_that_is_gone_is_named(renderer: Renderer) -> None:
    job = make_job(spec={"image": "old", "runtime": "docker"})
    with pytest.raises(InvalidInput, match="needs the runtime docker"):
        renderer.agent_spec(job)
