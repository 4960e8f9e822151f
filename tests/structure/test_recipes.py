"""The recipes of docs/howto/extend.md for job files, followed in a copy of the backend."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

JOB_FIELD = {
    "core/models/job_options.py": (
        "    slurm: Annotated[SlurmOptions",
        '    open_files: int | None = Field(None, ge=64, description="Limit of open files.")\n',
    ),
    "services/jobs/render.py": (
        "                **spec.env,\n",
        '                **({"OPEN_FILES": str(spec.open_files)} if spec.open_files else {}),\n',
    ),
}
"""The files that "Add a job-file field" edits, each with a line and the text before it."""

SLURM_FIELD = {
    "core/models/job_options.py": (
        "    requeue: Flag | None",
        '    thread_spec: int | None = Field(None, ge=1, description="Threads for the system.")\n',
    ),
    "adapters/schedulers/_slurm/rest/submission.py": (
        '    "time": _time(',
        '    "thread-spec": _integer("thread_specification"),\n',
    ),
}
"""The same for "Add an option of the `slurm` section"."""

JOB_FIELD_TEST = """
import gen_client_records
import json
import pytest
from pydantic import ValidationError

from aitne.adapters.node_software import own_software
from aitne.api.job_views import JobView
from aitne.api.app import bare_app
from aitne.api.openapi import document
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.models.job_file import JobFile
from aitne.core.settings import Settings
from aitne.services.jobs.render import Renderer
from tests.support.runtimes import FakeRuntime
from tests.unit.services.conftest import ADA

async def test_field_reaches_every_layer(bench, tmp_path):
    job = await bench.jobs.get(ADA, (await bench.create(open_files=4_096)).id)
    assert job.spec.open_files == 4_096
    assert job_to_file(job.spec)["open_files"] == 4_096
    assert JobView.of(job, []).open_files == 4_096
    renderer = Renderer(Settings(data_dir=tmp_path), {"bare": FakeRuntime()}, own_software())
    files = renderer.submit_request(job, {}, "token").files
    assert AgentSpec.model_validate_json(files["agent.json"]).env["OPEN_FILES"] == "4096"

    with pytest.raises(ValidationError):
        JobFile(commands=["true"], open_files=1)
    assert "open_files" not in job_to_file((await bench.create()).spec)

def test_client_record_is_generated(tmp_path, monkeypatch):
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document(bare_app())))
    monkeypatch.setattr(gen_client_records, "OPENAPI", path)
    job = gen_client_records.render("records").partition("class Job(")[2]
    assert "    open_files: int | None\\n" in job.partition("\\nclass ")[0]
"""

SLURM_FIELD_TEST = """
from aitne.adapters.schedulers._slurm.options import options
from aitne.adapters.schedulers._slurm.rest.submission import describe
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.sbatch_import import import_sbatch
from aitne.core.models.job_options import SlurmOptions
from tests.unit.slurm_rest.test_submission import FULL

def test_option_is_passed():
    request = FULL.model_copy(update={"slurm": SlurmOptions(thread_spec=2)})
    words = list(options(request, accounting=True))
    assert "--thread-spec=2" in words
    assert describe(words, {})["thread_specification"] == 2
    script = "#!/bin/bash\\n#SBATCH --thread-spec=2\\ntrue\\n"
    assert import_sbatch(script).file["slurm"] == {"thread_spec": "2"}
"""


def follow(folder: Path, edits: dict[str, tuple[str, str]], test: str) -> None:
    """Apply the edits to a copy of the backend and run a test module with it."""
    # With their times, so that the compiled modules stay valid.
    shutil.copytree(ROOT / "backend", folder / "backend")
    for name, (line, text) in edits.items():
        path = folder / "backend" / "aitne" / name
        source = path.read_text()
        assert source.count(line) == 1, f"{name}: {line!r}"
        path.write_text(source.replace(line, text + line))
    module = folder / "test_field.py"
    module.write_text(test)
    paths = [folder / "backend", ROOT, ROOT / "runtime", ROOT / "scripts"]
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    argv += [
        "-p",
        "tests.unit.services.conftest",
        "-o",
        "asyncio_mode=auto",
        "-W",
        "ignore",
        "-c",
        os.devnull,
    ]
    done = subprocess.run(
        [*argv, f"--rootdir={folder}", module],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_job_file_field_is_declared_once(tmp_path: Path) -> None:
    follow(tmp_path, JOB_FIELD, JOB_FIELD_TEST)


def test_slurm_option_is_declared_once(tmp_path: Path) -> None:
    follow(tmp_path, SLURM_FIELD, SLURM_FIELD_TEST)
