"""Jobs that run a notebook: what is refused, what the agent gets, what may be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import own_software
from aitne.core.errors import Conflict, InvalidInput, NotFound, Unavailable
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.states import JobState
from aitne.core.models.image import ImageUse
from aitne.core.models.job import Job
from aitne.core.models.resources import Resources
from aitne.core.settings import Settings
from aitne.services.jobs import executed_notebooks, file_parts
from aitne.services.jobs.executed_notebooks import NotebookService
from aitne.services.jobs.file_parts import FileParts
from aitne.services.jobs.job_renderer import Renderer
from tests.support.jobs import make_job
from tests.support.runtimes import FakeRuntime
from tests.unit.services.conftest import ADA, BOB, EVE, Bench, make_node

DIGEST = "a" * 64


async def refused(bench: Bench, **fields: object) -> dict[str, str]:
    """Return the problems of a job file with a notebook, by field."""
    with pytest.raises(InvalidInput) as error:
        await bench.create(**{"commands": [], "notebook": {"path": "/a.ipynb"}, **fields})
    return {problem.field: problem.message for problem in error.value.problems}


async def test_notebook_is_a_job_of_its_own(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    notebook = {"path": str(path), "parameters": {"lr": 0.1, "sizes": [1, 2]}}
    job = await bench.create(commands=[], notebook=notebook)
    assert (job.name, job.spec.commands) == ("train.ipynb", ())
    assert job_to_file(job.spec)["notebook"] == notebook


async def test_notebook_excludes_what_does_not_go_with_it(bench: Bench) -> None:
    assert "notebook" in await refused(bench, commands=["true"])
    assert "notebook" in await refused(bench, type="session")
    assert "array" in await refused(bench, array="0-3")
    assert "sweep" in await refused(bench, sweep={"parameters": {"lr": [1, 2]}})
    repo = {"url": "https://git.test/a", "ref": "main"}
    assert "notebook.path" in await refused(bench, repo=repo)


async def test_missing_notebook_is_refused_before_the_submission(
    bench: Bench, tmp_path: Path
) -> None:
    problems = await refused(bench, notebook={"path": f"{tmp_path}/missing.ipynb"})
    assert problems == {"notebook.path": f"there is no file {tmp_path}/missing.ipynb"}
    problems = await refused(bench, workdir=str(tmp_path), notebook={"path": "missing.ipynb"})
    assert problems == {"notebook.path": f"there is no file {tmp_path}/missing.ipynb"}
    folder = tmp_path / "folder.ipynb"
    folder.mkdir()
    problems = await refused(bench, notebook={"path": str(folder)})
    assert problems == {"notebook.path": f"{folder} is not a file"}


def rendered(job: Job) -> tuple[AgentSpec, dict[str, object]]:
    """Return the inputs of the agent and of the program that runs the notebook."""
    runtimes = {"bare": FakeRuntime(), "apptainer": FakeRuntime("apptainer")}
    renderer = Renderer(Settings(data_dir=Path("/srv/aitne")), runtimes, own_software())
    request = renderer.submit_request(job, {}, "secret")
    spec = AgentSpec.model_validate_json(request.files["agent.json"])
    return spec, json.loads(request.files["notebook.json"])


def test_agent_runs_the_notebook_with_the_python_of_sessions() -> None:
    notebook = {"path": "~/a.ipynb", "parameters": {"lr": 1}}
    job = make_job(spec={"commands": (), "notebook": notebook})
    spec, request = rendered(job)
    (argv,) = spec.commands
    assert argv[:2] == ("/session/bin/python", "-I")
    assert argv[2:4] == (str(own_software().notebook), "aitne.notebook.notebook_run")
    assert argv[4].endswith(f"{job.id}/1")
    assert spec.explains_failure
    package = str(own_software().notebook)
    expected = {"in_its_folder": True, "own_python": False, "package": package}
    assert request == {**notebook, "kernel": None, **expected}
    assert (spec.leader, spec.ranks) == ((), None)
    # It sees no ranks of a session.
    assert spec.env["AITNE_RANKS_FOLDER"] == f"~/.aitne/ranks/{job.id}"
    assert "AITNE_RANK_GROUP" not in spec.env


async def test_notebook_on_several_nodes_has_ranks_on_each(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    fields = {"commands": [], "notebook": {"path": str(path)}}
    await bench.nodes(make_node(), make_node("node02"))
    alone = await bench.create(**fields)
    assert alone.spec.distributed is None
    job = await bench.create(**fields, resources={"nodes": 2})
    assert job.spec.distributed is not None
    assert job.spec.distributed.ranks_per_node == 1
    chosen = await bench.create(**fields, distributed={"ranks_per_node": 3})
    assert chosen.spec.distributed is not None
    assert chosen.spec.distributed.ranks_per_node == 3


async def test_ranks_of_a_notebook_are_refused_where_the_python_of_all_nodes_is_too_old(
    bench: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    fields: dict[str, object] = {
        "commands": [],
        "notebook": {"path": str(path)},
        "resources": {"nodes": 2},
    }
    await bench.nodes(make_node("n1"), make_node("n2"), make_node("n3"))
    bench.topology.versions = {"n1": "3.9", "n2": "3.10"}
    problems = await refused(bench, **fields)
    assert "need Python 3.11 or newer" in problems["resources.nodes"]
    assert "(n[1-2]) have Python 3.10, 3.9" in problems["resources.nodes"]
    assert (await bench.create(**{**fields, "resources": {"nodes": 1}})).spec.distributed is None
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(0o755)
    own = {"venv": str(tmp_path / "venv")}
    assert (await bench.create(**{**fields, "environment": own})).spec.distributed is not None
    bench.topology.versions = {"n1": "3.9"}
    assert (await bench.create(**fields)).spec.distributed is not None


@pytest.mark.parametrize("venv", [None, "~/env"])
def test_notebook_with_ranks_runs_beside_those_of_the_first_node(venv: str | None) -> None:
    ranks = {"distributed": {"ranks_per_node": 2}, "resources": Resources(nodes=2)}
    fields = {"commands": (), "environment": {"venv": venv} if venv else {}}
    job = make_job(spec={"notebook": {"path": "~/a.ipynb"}, **ranks, **fields})
    spec, _ = rendered(job)
    (other,) = spec.commands
    # With an environment of the user, kernel and ranks have its Python.
    engine = (
        "python" if venv else "/session/bin/python",
        str(own_software().notebook),
        "aitne_train.notebook.engine",
    )
    assert other[other.index("--nodes") + 1] == "2"
    assert spec.leader[-3:] == other[-3:] == engine
    beside = json.loads(spec.leader[spec.leader.index("--app") + 1])
    assert beside["argv"][0] == "/session/bin/python"
    assert beside["argv"][3] == "aitne.notebook.notebook_run"
    assert beside["env"]["AITNE_RANKS_FOLDER"] == spec.env["AITNE_RANKS_FOLDER"]
    assert "--app" not in other
    assert spec.env["AITNE_RANK_GROUP"] == str(job.id)
    if venv:
        assert spec.leader[0] == other[0] == "bash", "the environment is loaded once for both"


def test_environment_and_working_folder_of_the_job_are_those_of_the_notebook() -> None:
    fields = {"workdir": "/data", "environment": {"venv": "~/env"}, "commands": ()}
    spec, request = rendered(make_job(spec={"notebook": {"path": "a.ipynb"}, **fields}))
    assert spec.commands[0][0] == "bash"
    assert (request["in_its_folder"], request["own_python"]) == (False, True)


def test_in_an_image_its_own_python_runs_the_notebook() -> None:
    image = ImageUse(
        reference="jupyter:1",
        digest="sha256:" + DIGEST,
        path="/images/j.sif",
        python="/opt/jupyter/bin/python",
    )
    fields = {"image_use": image, "runtime": "apptainer", "home": "/home/ada", "commands": ()}
    spec, _ = rendered(make_job(spec={"notebook": {"path": "a.ipynb"}, **fields}))
    assert spec.commands[0][0] == "/opt/jupyter/bin/python"
    assert spec.commands[0][2] == "/opt/aitne/notebook"


@pytest.fixture
async def job(bench: Bench) -> Job:
    """A job of ada's that runs a notebook."""
    job = make_job(owner="ada", project="vision", spec={"notebook": {"path": "~/a b.ipynb"}})
    return (await bench.store.create_job(job)).job


@pytest.fixture
def service(bench: Bench) -> NotebookService:
    return NotebookService(bench.jobs, bench.files, bench.renderer)


async def content(file: FileParts) -> bytes:
    return b"".join([part async for part in file.parts])


async def test_members_read_the_executed_notebook_and_others_do_not(
    bench: Bench, service: NotebookService, job: Job
) -> None:
    bench.files.written[job.id, 1] = {
        "executed.ipynb": b"{}",
        "executed.html": b"<p>",
        "token": b"x",
    }
    name, copy = await service.open_executed(ADA, job.id)
    assert (name, await content(copy)) == ("a b.ipynb", b"{}")
    assert await content(await service.open_page(BOB, job.id)) == b"<p>"
    for read in (service.open_executed, service.open_page):
        with pytest.raises(NotFound):
            await read(EVE, job.id)


async def test_missing_copy_is_explained_by_the_state_of_the_job(
    bench: Bench, service: NotebookService, job: Job
) -> None:
    with pytest.raises(NotFound, match="has not run a cell yet"):
        await service.open_executed(ADA, job.id)
    await bench.walk(job, JobState.SUBMITTING, JobState.QUEUED, JobState.FAILED)
    with pytest.raises(NotFound, match="ended before it wrote one; its log says why"):
        await service.open_page(ADA, job.id)
    plain = await bench.create()
    with pytest.raises(NotFound, match="runs no notebook"):
        await service.open_page(ADA, plain.id)


async def test_copy_is_read_in_parts_and_a_huge_one_is_not_read(
    bench: Bench, service: NotebookService, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = bench.files.written[job.id, 1] = {"executed.ipynb": bytes(range(256)) * 100}
    monkeypatch.setattr(file_parts, "PART_BYTES", 999)
    assert await content((await service.open_executed(ADA, job.id))[1]) == files["executed.ipynb"]
    monkeypatch.setattr(executed_notebooks, "MAX_BYTES", 25_599)
    with pytest.raises(Conflict, match=r"Copy it from .*/1/executed\.ipynb on the cluster"):
        await service.open_executed(ADA, job.id)


@pytest.mark.parametrize("later", [b"page and more", b"pag", None])
async def test_copy_that_is_replaced_while_it_is_read_is_never_a_mixture(
    bench: Bench,
    service: NotebookService,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    later: bytes | None,
) -> None:
    written = bench.files.written[job.id, 1] = {"executed.html": b"page"}
    monkeypatch.setattr(file_parts, "PART_BYTES", 3)
    parts = (await service.open_page(ADA, job.id)).parts
    assert await anext(parts) == b"pag"
    written.clear()
    if later is not None:
        written["executed.html"] = later
    with pytest.raises(Unavailable, match=r"/1/executed\.html was changed while it was read"):
        await anext(parts)
