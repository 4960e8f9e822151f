"""Every kind of batch script, compared with a stored file and run in bash.

To accept a change: ``AITNE_WRITE_GOLDEN=1 pytest tests/contract/scripts`` and read the difference.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from aitne.core.jobs.batch_script import render_script
from aitne.core.models.job import Job
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.platform.node_software_paths import NodeSoftware
from aitne.core.settings import Settings
from aitne.services.jobs.job_renderer import Renderer
from tests.support.jobs import make_array, make_job, make_session
from tests.support.runtimes import FakeRuntime

HERE = Path(__file__).parent
JOB_ID = UUID("0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11")
TASK_ID = UUID("0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c12")
BIG = Resources(nodes=2, cpu=8, memory_bytes=32 << 30, gpu=GpuRequest(count=4, type="a100"))


def _array() -> Job:
    return make_array("0-9%2", id=JOB_ID)[0]


def _task() -> Job:
    task = make_array("0-9%2", id=JOB_ID)[1][3]
    return task.model_copy(update={"id": TASK_ID, "attempt": 2})


CASES = {
    "job": make_job(id=JOB_ID),
    "session": make_session(id=JOB_ID),
    "distributed": make_job(
        id=JOB_ID, attempt=3, spec={"resources": BIG, "max_duration_s": 90_000}
    ),
    "array": _array(),
    "task-again": _task(),
}


@pytest.mark.parametrize("name", CASES)
def test_script_is_the_one_that_is_shown(name: str) -> None:
    settings = Settings(data_dir=Path("/srv/aitne"))
    software = NodeSoftware(
        agent=("/opt/aitne/bin/python", "-I", "-m", "aitne.agent"),
        launcher=Path("/launcher.py"),
        spawner=("/opt/aitne/bin/python", "-I", "/launcher.pyz"),
        notebook=Path("/notebook"),
    )
    script = Renderer(settings, {"bare": FakeRuntime()}, software).script(CASES[name])
    path = HERE / f"{name}.sh"
    if os.environ.get("AITNE_WRITE_GOLDEN"):
        path.write_text(script, encoding="utf-8")
    assert script == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("nodes", "address"),
    [
        ("gpu[03-05,9],n1", "gpu03"),
        ("n1,n2", "n1"),
        ("rack[1-2]node[07,9]-ib,x", "rack1node07-ib"),
        ("a,b[1-2]", "a"),
        (None, "localhost"),
    ],
)
def test_bash_finds_where_ranks_meet(tmp_path: Path, nodes: str | None, address: str) -> None:
    python = tmp_path / "a 'python'"
    python.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$*" "$MASTER_ADDR" "${MASTER_PORT-unset}" "$AITNE_JOB_DIR"'
    )
    python.chmod(0o700)
    script = render_script(
        job_id=JOB_ID,
        attempt=1,
        session=True,
        project="vision",
        resources=BIG,
        time_limit_s=60,
        array=None,
        job_dir=str(tmp_path / "$(id) 'job'"),
        agent=(str(python), "-I", "-m", "aitne.agent"),
    )
    env = {"PATH": os.environ["PATH"]}
    env |= {} if nodes is None else {"SLURM_JOB_NODELIST": nodes}
    env |= {"SLURM_JOB_ID": "7"}
    ran = subprocess.run(
        ["bash", "-s"], input=script, env=env, capture_output=True, text=True, check=True
    )
    job_dir = f"{tmp_path}/$(id) 'job'"
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [f"-I -m aitne.agent {job_dir}", address, "unset", job_dir]


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in HERE.glob("*.sh")} == set(CASES)
