"""Tests of the batch script and the files that scheduler and agent get."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import SoftwareFolder, own_software
from aitne.core.errors import InvalidInput
from aitne.core.jobs.agent_protocol import AgentPlacement, AgentRanks, AgentSpec
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import ImageUse
from aitne.core.models.job import Job
from aitne.core.models.resources import Resources
from aitne.core.ports.runtime import RuntimeLimits
from aitne.core.settings import Settings
from aitne.services.jobs.job_containers import make_container_spec
from aitne.services.jobs.job_renderer import Renderer
from tests.support.jobs import make_array, make_job, make_rank_group, make_session
from tests.support.runtimes import FakeRuntime

SETTINGS = Settings(data_dir=Path("/srv/aitne"), port=9000)
RUNTIMES = {
    "bare": FakeRuntime(),
    "apptainer": FakeRuntime("apptainer"),
}


@pytest.fixture
def renderer() -> Renderer:
    return Renderer(SETTINGS, RUNTIMES, own_software())


def sent(renderer: Renderer, job: Job) -> AgentSpec:
    request = renderer.submit_request(job, {}, "secret")
    return AgentSpec.model_validate_json(request.files["agent.json"])


def test_each_command_is_a_program_of_its_own(renderer: Renderer) -> None:
    spec = sent(renderer, make_job(spec={"commands": ("a && b", "c"), "env": {"X": "1"}}))
    assert spec.commands == (("bash", "-c", "a && b"), ("bash", "-c", "c"))
    assert spec.env == {"SLURM_JOB_NAME": "digits", "VIRTUAL_ENV": "/session", "X": "1"}
    assert spec.path == ("/session/bin",)
    assert (spec.workdir, spec.platform_url) == ("~", "http://127.0.0.1:9000")


def test_command_with_an_interpreter_is_a_file_that_it_runs(renderer: Renderer) -> None:
    script = "#!/usr/bin/env  python3 \nprint('$HOME; `id`')\n"
    job = make_job(
        spec={
            "commands": ("true", script, "#!/bin/bash -l\nx"),
            "environment": {"modules": ("gcc",)},
        }
    )
    request = renderer.submit_request(job, {}, "secret")
    spec = AgentSpec.model_validate_json(request.files["agent.json"])
    python, bash = (f"{request.job_dir}/command-{number}" for number in (1, 2))
    assert [argv[-3:] for argv in spec.commands] == [
        ("bash", "-c", "true"),
        ("/usr/bin/env", "python3", python),
        ("/bin/bash", "-l", bash),
    ]
    assert request.files["command-1"] == script.encode()
    assert "slurm_script" not in request.files


def test_first_command_with_an_interpreter_has_the_name_of_a_batch_script(
    renderer: Renderer,
) -> None:
    job = make_job(spec={"commands": ("#!/bin/bash\necho $0\n", "#!/bin/sh\nb\n")})
    request = renderer.submit_request(job, {}, "secret")
    spec = AgentSpec.model_validate_json(request.files["agent.json"])
    folder = request.job_dir
    assert spec.commands == (
        ("/bin/bash", f"{folder}/slurm_script"),
        ("/bin/sh", f"{folder}/command-1"),
    )


@pytest.mark.parametrize(
    ("workdir", "path", "full"),
    [
        ("/scratch/ada", "run.sh", "/scratch/ada/run.sh"),
        ("/scratch/ada", "./run.sh", "/scratch/ada/./run.sh"),
        ("/scratch/ada", "/opt/run.sh", "/opt/run.sh"),
        (None, "run.sh", "/home/ada/run.sh"),
        ("~/project", "a/run.sh", "/home/ada/project/a/run.sh"),
        ("/scratch/ada", "~/run.sh", "/home/ada/run.sh"),
    ],
)
def test_scheduler_gets_the_path_and_arguments_of_the_batch_script(
    renderer: Renderer, workdir: str | None, path: str, full: str
) -> None:
    fields = {"script_path": path, "args": ("a b", "4"), "workdir": workdir, "home": "/home/ada"}
    job = make_job(spec={"commands": ("#!/bin/sh\nx\n",), **fields})
    assert renderer.submit_request(job, {}, "secret").command == (full, "a b", "4")
    plain = make_job(spec={"commands": ("#!/bin/sh\nx\n",), "args": ("4",)})
    assert renderer.submit_request(plain, {}, "secret").command == ()


def test_arguments_reach_each_command(renderer: Renderer) -> None:
    args = ("config 1.yml", "", "$(id)")
    commands = ('echo "$@"', "#!/bin/tcsh -f\necho $1\n")
    job = make_job(spec={"commands": commands, "args": args})
    request = renderer.submit_request(job, {}, "secret")
    spec = AgentSpec.model_validate_json(request.files["agent.json"])
    assert spec.commands == (
        ("bash", "-c", 'echo "$@"', "bash", *args),
        ("/bin/tcsh", "-f", f"{request.job_dir}/command-1", *args),
    )
    assert "$(id)" not in request.script


@pytest.mark.parametrize("line", ["# !/bin/sh", "#!", "#!python", "x #!/bin/sh", "\n#!/bin/sh"])
def test_command_without_an_interpreter_runs_under_bash(renderer: Renderer, line: str) -> None:
    spec = sent(renderer, make_job(spec={"commands": (line,)}))
    assert spec.commands == (("bash", "-c", line),)


def test_a_users_variable_wins_over_the_runtimes(renderer: Renderer) -> None:
    assert sent(renderer, make_job(spec={"env": {"PATH": "/mine"}})).env["PATH"] == "/mine"


def test_a_session_starts_its_launcher_in_the_session_environment(renderer: Renderer) -> None:
    (app,) = sent(renderer, make_session()).apps
    launcher = own_software().launcher
    notebook = ("--notebook", str(own_software().notebook))
    assert app.argv == ("/session/bin/python", "-I", str(launcher), *notebook)
    assert (app.kind, app.readiness_path, app.timeout_s) == ("jupyterhub", "/", 120)
    assert Path(launcher).is_file()


def test_rank_group_runs_the_engine_of_its_session_on_each_rank(renderer: Renderer) -> None:
    session = make_session()
    group = make_rank_group(session, spec={"environment": {"modules": ("cuda",)}})
    spec = sent(renderer, group)
    (argv,) = spec.commands
    notebook = str(own_software().notebook)
    assert argv[-4:] == ("--", "/session/bin/python", notebook, "aitne_train.notebook.engine")
    assert argv.index("cuda") < argv.index("node"), "the environment of the session is loaded first"
    assert spec.ranks is not None
    assert spec.ranks.ranks_per_node == 2
    assert {name: value for name, value in spec.env.items() if name.startswith("AITNE_")} == {
        "AITNE_SESSION": str(session.id),
        "AITNE_RANK_GROUP": str(group.id),
        "AITNE_RANKS_FOLDER": f"~/.aitne/ranks/{group.id}",
        "AITNE_RANKS_IDLE_S": "900",
    }


def test_rank_group_in_an_image_has_the_packages_for_notebooks(renderer: Renderer) -> None:
    image = ImageUse(reference="torch:1", path="/images/t.sif", python="/opt/venv/bin/python")
    of_image = {"image_use": image, "runtime": "apptainer", "home": "/home/ada"}
    for chosen, python in ((None, "/opt/venv/bin/python"), ("/mine/python", "/mine/python")):
        session = make_session()
        group = {"session": session.id, "idle_s": None, "python": chosen}
        job = make_rank_group(session, spec={**of_image, "rank_group": group})
        spec = sent(renderer, job)
        (argv,) = spec.commands
        assert argv[-3:] == (python, "/opt/aitne/notebook", "aitne_train.notebook.engine")
        assert "AITNE_RANKS_IDLE_S" not in spec.env
        box = make_container_spec(job, "/home/ada/jobs/1", own_software(), RuntimeLimits())
        mounted = {bind.target: bind.source for bind in box.binds if not bind.writable}
        assert mounted["/opt/aitne/notebook"] == str(own_software().notebook)


def test_in_an_image_the_program_stays_its_own_and_the_runtime_comes_before_it(
    renderer: Renderer,
) -> None:
    image = ImageUse(
        reference="jupyter:1",
        digest="sha256:" + "a" * 64,
        path="/images/j.sif",
        env={"X": "image", "Y": "image"},
        python="/opt/jupyter/bin/python",
    )
    fields = {"image_use": image, "runtime": "apptainer", "home": "/home/ada", "env": {"X": "1"}}
    made = make_session(spec=fields)
    session = sent(renderer, made)
    (app,) = session.apps
    launcher, notebook = "/opt/aitne/lab/launcher.py", "/opt/aitne/notebook"
    assert app.argv == ("/opt/jupyter/bin/python", "-I", launcher, "--notebook", notebook)
    assert session.launch.prefix == ("apptainer",)
    assert session.env == {
        "X": "1",
        "Y": "image",
        "AITNE_DATASETS": "/datasets",
        "AITNE_WORKSPACE": str(made.id),
        "SLURM_JOB_NAME": made.name,
        "SLURM_SUBMIT_DIR": "/home/ada",
    }
    assert (session.path, session.datasets) == ((), {})
    assert session.needs[0].sha256 == "a" * 64


def test_without_an_image_datasets_are_linked(renderer: Renderer) -> None:
    data = DatasetUse(name="div2k", version="2", path="/data/div2k", manifest="b" * 64)
    spec = sent(renderer, make_job(spec={"datasets": (data,)}))
    assert spec.datasets == {"div2k": "/data/div2k"}
    assert "AITNE_DATASETS" not in spec.env
    assert [need.path for need in spec.needs] == ["/data/div2k"]


def test_agent_receives_limits_only_if_it_enforces_them(renderer: Renderer) -> None:
    by_agent = sent(renderer, make_job(spec={"held_by": {"agent_memory": True}}))
    assert by_agent.limits == RuntimeLimits(memory_bytes=1 << 30)
    assert sent(renderer, make_job()).limits == RuntimeLimits()


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
    assert re.fullmatch(r"/shared/sw/lab-[0-9a-f]{12}/launcher\.py", app.argv[2])


RANKS = {"distributed": {"ranks_per_node": 3, "backend": "gloo"}, "commands": ("train $A",)}


def test_ranks_are_started_by_the_platforms_own_program(renderer: Renderer) -> None:
    job = make_job(spec={**RANKS, "resources": Resources(nodes=2)})
    spec = sent(renderer, job)
    place = ("--nodes", "2", "--node-rank", "{node_rank}", "--ranks", "3", "--run-dir", "{run_dir}")
    known = ("--job", str(job.id), "--grace", "86400", "--bind-to", "auto")
    program = (*own_software().spawner, "node", *place, *known, "--")
    assert spec.commands == ((*program, "bash", "-c", "train $A"),)
    assert spec.ranks == AgentRanks(
        nodes=2,
        ranks_per_node=3,
        agent=own_software().agent,
        env={
            "AITNE_TRANSPORT": "torch_pg",
            "AITNE_STRATEGY": "allreduce",
            "AITNE_COMPRESS": "none",
        },
    )


def test_ranks_with_scripts_for_horovod_get_the_option(renderer: Renderer) -> None:
    spec = sent(renderer, make_job(spec={"distributed": {"horovod": True}, "commands": ("train",)}))
    assert spec.commands[0][-5:] == ("--horovod", "--", "bash", "-c", "train")


def test_order_mesh_and_binding_are_those_of_the_job(renderer: Renderer) -> None:
    placement = {"order": "file:~/order.txt", "mesh": {"tensor": 2, "data": 3}, "bind": "off"}
    fields = {**RANKS, "placement": placement, "resources": Resources(nodes=2)}
    job = make_job(spec=fields)
    spec = sent(renderer, job)
    assert spec.placement == AgentPlacement(order="file:~/order.txt", mesh=(2, 1, 3))
    assert spec.commands[0][-6:-4] == ("--bind-to", "off")
    request = renderer.submit_request(job, {}, "token", "SwitchName=a Nodes=n1\n")
    assert request.files["topology.conf"] == b"SwitchName=a Nodes=n1\n"
    alone = make_job(spec=RANKS)
    assert "topology.conf" not in renderer.submit_request(alone, {}, "token", "x").files


def test_in_an_image_its_own_python_starts_the_ranks(renderer: Renderer) -> None:
    image = ImageUse(reference="torch:1", digest="sha256:" + "a" * 64, path="/images/t.sif")
    fields = {"image_use": image, "runtime": "apptainer", "home": "/home/ada"}
    (argv,) = sent(renderer, make_job(spec={**RANKS, **fields})).commands
    assert argv[:4] == ("python3", "-I", "/opt/aitne/launcher/launcher.pyz", "node")


def test_first_node_of_a_session_runs_the_app_and_its_ranks_in_one_program(
    renderer: Renderer,
) -> None:
    ranks = {"distributed": {"ranks_per_node": 2}, "resources": Resources(nodes=2)}
    made = make_session(spec=ranks)
    session = sent(renderer, made)
    (app,) = session.apps
    (other,) = session.commands
    spawner = (*own_software().spawner, "node")
    assert session.ranks is not None
    variables = session.ranks.env
    assert variables["AITNE_RANKS_FOLDER"] == f"~/.aitne/ranks/{made.id}"
    assert variables["AITNE_SESSION"] == variables["AITNE_RANK_GROUP"] == str(made.id)
    assert other[: len(spawner)] == spawner
    notebook = str(own_software().notebook)
    engine = ("--", "/session/bin/python", notebook, "aitne_train.notebook.engine")
    assert other[other.index("--") :] == engine
    first = app.argv[len(spawner) :]
    assert app.argv[: len(spawner)] == spawner
    assert first[0] == "--app"
    launcher = ["/session/bin/python", "-I", str(own_software().launcher)]
    launcher += ["--notebook", notebook]
    assert json.loads(first[1]) == {"argv": launcher, "env": variables}
    # Except for the app, both nodes start the same.
    assert first[2:] == other[len(spawner) :]
    assert first[2:8] == ("--nodes", "2", "--node-rank", "{node_rank}", "--ranks", "2")


def test_session_with_ranks_has_one_container_on_each_node(renderer: Renderer) -> None:
    image = ImageUse(
        reference="jupyter:1",
        digest="sha256:" + "a" * 64,
        path="/images/j.sif",
        python="/opt/jupyter/bin/python",
    )
    fields = {"image_use": image, "runtime": "apptainer", "home": "/home/ada"}
    ranks = {"distributed": {"ranks_per_node": 1}, "resources": Resources(nodes=2)}
    session = sent(renderer, make_session(spec={**fields, **ranks}))
    (app,) = session.apps
    (other,) = session.commands
    python = "/opt/jupyter/bin/python"
    for argv in (app.argv, other):
        assert argv[:4] == (python, "-I", "/opt/aitne/launcher/launcher.pyz", "node")
        assert argv[-3:] == (python, "/opt/aitne/notebook", "aitne_train.notebook.engine")
    beside = json.loads(app.argv[app.argv.index("--app") + 1])
    assert beside["argv"][:3] == [python, "-I", "/opt/aitne/lab/launcher.py"]


def test_an_environment_is_loaded_once_for_all_ranks_of_a_node(renderer: Renderer) -> None:
    (argv,) = sent(renderer, make_job(spec={**RANKS, "environment": {"venv": "~/v"}})).commands
    assert argv[-4:] == ("--", "bash", "-c", "train $A")
    assert argv.index("aitne-environment") < argv.index(own_software().spawner[-1])


def test_the_token_travels_only_as_a_file(renderer: Renderer) -> None:
    request = renderer.submit_request(make_job(), {"after": ["7", "8"]}, "t0k3n")
    assert request.files["token"] == b"t0k3n"
    assert request.after == ("7", "8")
    assert "t0k3n" not in request.model_dump_json(exclude={"files"})
    assert b"t0k3n" not in request.files["agent.json"]
    assert json.loads(request.files["agent.json"])["protocol"] == 1


def test_tasks_share_their_arrays_folder(renderer: Renderer) -> None:
    array, tasks = make_array("0-9%2")
    request = renderer.submit_request(array, {}, "t")
    assert (request.job_id, request.array) == (array.id, "0-9%2")
    assert request.job_dir == f"/srv/aitne/jobs/{array.id}/1"
    again = tasks[3].model_copy(update={"attempt": 2})
    request = renderer.submit_request(again, {}, "t")
    assert (request.job_id, request.attempt, request.array) == (array.id, 2, "3")
    assert request.job_dir == f"/srv/aitne/jobs/{array.id}/2"
    assert sent(renderer, again).job_id == array.id


def test_agent_receives_what_fills_the_folder_of_the_job(renderer: Renderer) -> None:
    """All attempts and tasks have one folder, beside those of the attempts."""
    repo = {"url": "https://example.org/a", "ref": "v1", "subdir": "code"}
    array, _ = make_array("0-1", spec={"repo": repo, "commands": ("true",)})
    spec = renderer.agent_spec(array)
    assert spec.tree is not None
    folder = Path(renderer.get_location(array).folder)
    assert spec.tree.model_dump(exclude_none=True) == {"path": f"{folder}/tree", **repo}
    assert spec.workdir == f"{folder}/tree/code"
    tree = {"digest": "a" * 64, "files": 1, "size_bytes": 1}
    job = make_job(spec={"tree": tree, "commands": ("true",)}, attempt=2)
    spec = renderer.agent_spec(job)
    assert spec.tree is not None
    assert (spec.tree.digest, spec.tree.url) == ("a" * 64, None)
    assert spec.workdir == spec.tree.path == f"{renderer.get_location(job).folder}/tree"
    assert renderer.agent_spec(make_job(spec={"commands": ("true",)})).tree is None


def test_a_runtime_that_is_gone_is_named(renderer: Renderer) -> None:
    job = make_job(spec={"image": "old", "runtime": "docker"})
    with pytest.raises(InvalidInput, match="needs the runtime docker"):
        renderer.agent_spec(job)
