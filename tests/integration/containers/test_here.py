"""Jobs and sessions in the shipped images on one machine: by Apptainer and by Docker."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aitne.client import Client
from tests.support import realtime
from tests.support.dockerd import Dockerd
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

# The first run on a machine builds both images for both runtimes.
pytestmark = [
    pytest.mark.platform,
    pytest.mark.long(third=3),
    pytest.mark.timeout(1_500),
    realtime.PLATFORM,
]

RUNTIMES = ["apptainer", "docker"]
SMALL = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "20m"}
WRITE = 'cat "$AITNE_DATASETS/digits/one"; touch "$AITNE_DATASETS/digits/two"'
WHERE = "import os; print(os.environ['AITNE_DATASETS'], os.path.exists('/.dockerenv'))"
ERASE = """
import errno
try:
    open('/datasets/digits/one', 'w')
except OSError as error:
    print(errno.errorcode[error.errno])
"""
until = partial(eventually, within_s=60, poll_s=0.2)


@pytest.fixture(scope="module")
def data(here: RunningPlatform) -> Path:
    """A dataset in the catalogue, added by the command line."""
    folder = here.home / "digits"
    folder.mkdir()
    (folder / "one").write_text("1\n")
    done = here.aitne("dataset", "add", "digits", str(folder), "--version", "1", "--yes")
    assert done.returncode == 0, done.stderr
    return folder


def job_file(runtime: str, **fields: Any) -> dict[str, Any]:
    return {"container": {"runtime": runtime}, "datasets": ["digits"], **SMALL, **fields}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_job_reads_its_dataset_and_cannot_change_it(
    owner: Client, data: Path, runtime: str
) -> None:
    job = owner.jobs.create(job_file(runtime, type="job", image="base", commands=[WRITE]))
    ended = owner.jobs.wait(job.id, timeout_s=120)
    log = b"".join(owner.jobs.logs(job.id)).decode()
    assert ended.state == "FAILED"
    # Docker keeps no order between a program's output and its errors.
    assert "1" in log.splitlines()
    assert "Read-only file system" in log
    assert [path.name for path in data.iterdir()] == ["one"]
    assert (ended.image, ended.runtime) == ("base:1.0.0", runtime)
    assert [(each["name"], each["version"]) for each in ended.datasets] == [("digits", "1")]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_command_line_runs_one_too(
    here: RunningPlatform, data: Path, runtime: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.aitne.yml"
    command = "python3 -c 'import sys; print(sys.version_info[:2])'"
    file.write_text(json.dumps(job_file(runtime, type="job", image="base", commands=[command])))
    done = here.aitne("apply", "-f", str(file), "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(3, 11)"
    assert f"base:1.0.0 ({runtime})" in done.stderr


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_session_works_in_its_image_and_leaves_nothing(
    here: RunningPlatform, owner: Client, data: Path, stock_dockerd: Dockerd, runtime: str
) -> None:
    session = owner.sessions.start("jupyterlab", job_file=job_file(runtime, image="jupyter"))
    ready = owner.sessions.wait_ready(session.id, timeout_s=180)
    assert (ready.image, ready.runtime) == ("jupyter:1.1.0", runtime)
    with Notebook(here.url, here.token, owner.sessions.open(session.id)) as notebook:
        notebook.start_kernel()
        assert notebook.execute("import sys; sys.prefix").strip("'") == "/opt/jupyter"
        assert notebook.execute(WHERE).split() == ["/datasets", str(runtime == "docker")]
        assert notebook.execute(ERASE).strip() == "EROFS"
    owner.sessions.stop(session.id)
    until("it has ended", lambda: owner.jobs.get(session.id).ended)
    until("nothing is left of it", lambda: not left_of(session.id, stock_dockerd))


def test_a_container_that_outlives_its_grace_is_removed(
    here: RunningPlatform, owner: Client, stock_dockerd: Dockerd
) -> None:
    stubborn = "trap 'echo asked' TERM; echo runs; while :; do sleep 1; done"
    fields = job_file("docker", type="job", image="base", commands=[stubborn])
    job = owner.jobs.create({**fields, "datasets": []})
    until("it runs", lambda: "runs" in b"".join(owner.jobs.logs(job.id)).decode())
    owner.jobs.cancel(job.id)
    until("it has ended", lambda: owner.jobs.get(job.id).ended)
    assert not left_of(job.id, stock_dockerd)


def left_of(job_id: str, dockerd: Dockerd) -> list[str]:
    """Return the containers and processes that still belong to the job."""
    assert dockerd.client is not None
    found = [
        str(container.name)
        for container in dockerd.client.containers.list(all=True, ignore_removed=True)
        if job_id in json.dumps(container.labels)
    ]
    said = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return found + [line for line in said.stdout.splitlines() if job_id in line]


def test_an_image_without_the_app_is_refused(owner: Client, here: RunningPlatform) -> None:
    done = here.aitne("session", "start", "jupyterlab", "--image", "base", "--yes")
    assert done.returncode != 0
    assert "base:1.0.0 has no app lab" in done.stderr
    assert "jupyter" in done.stderr


def test_a_retired_image_is_kept_for_what_runs(owner: Client, here: RunningPlatform) -> None:
    fields = job_file("apptainer", type="job", image="base", commands=["sleep 300"])
    job = owner.jobs.create({**fields, "datasets": []})
    until("it runs", lambda: owner.jobs.get(job.id).state == "RUNNING")
    retired = here.aitne("admin", "image", "retire", "base:1.0.0", "--yes")
    assert retired.returncode == 0, retired.stderr
    try:
        assert owner.jobs.get(job.id).state == "RUNNING"
        refused = here.aitne("session", "start", "batch", "--image", "base", "--yes")
        assert refused.returncode != 0
        with pytest.raises(Exception, match="is retired"):
            owner.jobs.create({**fields, "datasets": []})
    finally:
        owner.images.offer("base:1.0.0")
        owner.jobs.cancel(job.id)
