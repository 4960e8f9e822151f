"""The recipes of docs/howto/extend.md, followed in a copy of the tree, with the tests that judge such a change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    *("backend", "containers", "docs", "frontend/openapi.json", "frontend/src", "jobtemplates"),
    *("monitoring", "runtime", "scripts", "tests", "conftest.py", "pyproject.toml"),
)
GENERATORS = {
    "frontend/openapi.json": ("-m", "aitne.api.openapi"),
    "backend/aitne/client/records.py": ("scripts/gen_client_records.py", "records"),
    "docs/reference/metrics.md": ("scripts/gen_metrics.py",),
}
"""Programs that `make gen` runs, by the file that each writes."""
DESCRIBED = (
    "tests/contract/openapi/test_document.py::test_every_property_is_described_in_words_of_json"
)


@dataclass(frozen=True)
class Recipe:
    """A change as its recipe describes it."""

    edits: Sequence[tuple[str, str, str]]
    """Each with a file below the root, a text that occurs in it once, and the text put before that."""
    test: str
    """Test of the change, beside which tests have the fixtures that it needs."""
    beside: str
    judges: Sequence[str]
    """Tests that fail when a part of such a change is missing."""
    most_files: int
    """Maximum number of files to change by hand, without the test."""
    generated: Sequence[str] = ()
    """Files that are generated before the tests."""
    removed: Sequence[tuple[str, str]] = ()
    """Each with a file below the root and a text that occurs in it once, which is removed."""


JOB_FIELD = Recipe(
    edits=[
        (
            "backend/aitne/core/models/common_job_fields.py",
            "    slurm: Annotated[SlurmOptions",
            '    open_files: int | None = Field(None, ge=64, description="Limit of open files.")\n',
        ),
        (
            "backend/aitne/services/jobs/job_renderer.py",
            "                **spec.env,\n",
            '                **({"OPEN_FILES": str(spec.open_files)} if spec.open_files else {}),\n',
        ),
    ],
    test="""
from pathlib import Path

import pytest
from pydantic import ValidationError

from aitne import client
from aitne.adapters.node_software_folder import own_software
from aitne.api.job_views import JobView
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.models.job_file import JobFile
from aitne.core.settings import Settings
from aitne.services.jobs.job_renderer import Renderer
from tests.support.runtimes import FakeRuntime
from tests.unit.services.conftest import ADA

async def test_field_reaches_every_layer(bench, tmp_path):
    job = await bench.jobs.get(ADA, (await bench.create(open_files=4_096)).id)
    assert job.spec.open_files == 4_096
    assert job_to_file(job.spec)["open_files"] == 4_096
    assert JobView.from_job(job, []).open_files == 4_096
    renderer = Renderer(Settings(data_dir=tmp_path), {"bare": FakeRuntime()}, own_software())
    files = renderer.submit_request(job, {}, "token").files
    assert AgentSpec.model_validate_json(files["agent.json"]).env["OPEN_FILES"] == "4096"

    with pytest.raises(ValidationError):
        JobFile(commands=["true"], open_files=1)
    assert "open_files" not in job_to_file((await bench.create()).spec)

def test_client_record_is_generated():
    records = Path(client.__file__).with_name("records.py").read_text()
    job = records.partition("class Job(")[2].partition("\\nclass ")[0]
    assert "    open_files: int | None\\n" in job
""",
    beside="tests/unit/services",
    judges=[DESCRIBED, "tests/contract/scripts"],
    most_files=2,
    generated=["frontend/openapi.json", "backend/aitne/client/records.py"],
)

SLURM_OPTION = Recipe(
    edits=[
        (
            "backend/aitne/core/models/common_job_fields.py",
            "    requeue: Flag | None",
            "    thread_spec: int | None = Field(\n"
            '        None, ge=1, description="Threads for the system."\n    )\n',
        ),
        (
            "backend/aitne/adapters/schedulers/_slurm/rest/submission.py",
            '    "time": _make_duration_converter(',
            '    "thread-spec": _make_integer_converter("thread_specification"),\n',
        ),
    ],
    test="""
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.sbatch_import import import_sbatch
from aitne.core.models.common_job_fields import SlurmOptions
from tests.unit.slurm_rest.test_submission import FULL

def test_option_is_passed():
    request = FULL.model_copy(update={"slurm": SlurmOptions(thread_spec=2)})
    words = list(make_sbatch_arguments(request, accounting=True))
    assert "--thread-spec=2" in words
    assert make_submission(words, {})["thread_specification"] == 2
    script = "#!/bin/bash\\n#SBATCH --thread-spec=2\\ntrue\\n"
    assert import_sbatch(script).file["slurm"] == {"thread_spec": "2"}
""",
    beside="tests/unit/slurm_rest",
    judges=[
        DESCRIBED,
        "tests/contract/scripts",
        "tests/unit/broker/test_versions.py",
        "tests/unit/slurm_rest/test_submission.py",
        "tests/unit/core/jobs/test_sbatch_options.py",
    ],
    most_files=3,
    removed=[("backend/aitne/core/jobs/sbatch_option_names.py", '"thread-spec", ')],
)

MEASURED_VALUE = Recipe(
    edits=[
        (
            "backend/aitne/agent/gpus.py",
            "            errors = self._read_nvml_number(\n",
            "            celsius = self._read_nvml_number(\n"
            '                "nvmlDeviceGetTemperature", ctypes.c_uint(), handle, ctypes.c_uint(0)\n'
            "            )\n"
            "            if celsius is not None:\n"
            '                sample["temperature_c"] = celsius\n',
        ),
        (
            "backend/aitne/core/jobs/usage_sample_values.py",
            '    SampleValue(\n        name="energy_j",',
            """\
    SampleValue(
        name="temperature_c",
        source="gpu",
        unit="°C",
        title="GPU temperature",
        figure="peak",
        combination="max",
        metric=Metric(
            "aitne_job_gpu_temperature_celsius", "Highest temperature of the GPUs.", JOB_LABELS
        ),
    ),
""",
        ),
        (
            "backend/aitne/core/platform/metric_names.py",
            '    "watts": "watts",\n',
            '    "celsius": "degrees Celsius",\n',
        ),
        ("frontend/src/i18n/server.json", '  "GPU utilization",\n', '  "GPU temperature",\n'),
        (
            "frontend/src/i18n/de.json",
            '  "GPU type":',
            '  "GPU temperature": "Temperatur der GPUs",\n',
        ),
    ],
    test="""
from pathlib import Path

from aitne import client
from aitne.agent import gpus
from tests.unit.agent.test_gpus import MeasuringNvml
from tests.unit.api.test_metrics import report, running, scrape

class WarmNvml(MeasuringNvml):
    def nvmlDeviceGetTemperature(self, handle, sensor, found):
        found._obj.value = 60 + handle.value
        return 0

async def test_value_reaches_the_api_and_prometheus(stage, monkeypatch):
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda _: WarmNvml())
    measured = gpus.Gpus("0,1").measure()
    job = await running(stage)
    assert (await report(stage, job, gpu=measured)).status_code == 200
    async with stage.client(await stage.token(await stage.add_user("ada"))) as client:
        metrics = (await client.get(f"/api/v1/jobs/{job.id}/metrics")).json()
    (sample,) = metrics["samples"]
    assert [gpu["temperature_c"] for gpu in sample["gpu"]] == [61, 62]
    described = {value["name"]: value for value in metrics["values"]}["temperature_c"]
    assert described == {
        "name": "temperature_c",
        "source": "gpu",
        "unit": "°C",
        "title": "GPU temperature",
        "figure": "peak",
    }
    text = await scrape(stage, "/metrics/jobs")
    assert 'aitne_job_gpu_temperature_celsius{jobid="4711"} 62.0\\n' in text

def test_metric_is_documented():
    page = Path("docs/reference/metrics.md").read_text()
    assert "| `aitne_job_gpu_temperature_celsius` | gauge | `jobid` | degrees Celsius |" in page
""",
    beside="tests/unit/api",
    judges=[
        "tests/structure/test_portal_texts.py::test_every_title_of_a_measured_value_is_known",
        "tests/unit/agent/test_gpus.py",
        "tests/unit/api/test_metrics.py::test_a_live_job_has_series_by_the_schedulers_id_until_it_ends",
    ],
    most_files=6,
    generated=["docs/reference/metrics.md"],
)

TEMPLATE_FIELD = Recipe(
    edits=[
        (
            "backend/aitne/core/models/template_parameter.py",
            "    choices: list[str]",
            "    multiple_of: int | None = Field(None, ge=1)\n"
            '    """Number of which its value is a multiple; None: any number."""\n',
        ),
        (
            "backend/aitne/core/models/template_parameter.py",
            "        if self.minimum is not None and value <",
            "        if self.multiple_of is not None and value % self.multiple_of:\n"
            '            raise ValueError(f"{value} is not a multiple of {self.multiple_of}")\n',
        ),
        (
            "frontend/src/features/jobs/launch/ParameterField.tsx",
            '  if (parameter.type === "integer") return 1;\n',
            "  if (parameter.multiple_of !== null) return parameter.multiple_of;\n",
        ),
        (
            "frontend/src/features/jobs/launch/test-template.ts",
            "choices: [], pattern: null",
            "multiple_of: null, ",
        ),
    ],
    test="""
import json
from pathlib import Path

import pytest

from aitne.core.errors import InvalidInput, TemplateError
from aitne.services.jobs.template_file import load_template
from aitne.services.jobs.template_catalog import TemplateCatalog

TEMPLATE = '''
name: train
version: 1.0.0
title: Train
type: job
parameters:
  - {name: batch, type: integer, title: Batch, default: 32, multiple_of: 8}
commands: [python train.py]
'''

def test_field_reaches_the_form_and_limits_its_values(tmp_path):
    (tmp_path / "train.yaml").write_text(TEMPLATE)
    catalog = TemplateCatalog([tmp_path])
    template = catalog.get("train")
    assert template.model_dump(mode="json")["parameters"][0]["multiple_of"] == 8
    schemas = json.loads(Path("frontend/openapi.json").read_text())["components"]["schemas"]
    assert "multiple_of" in schemas["Parameter"]["properties"]
    with pytest.raises(InvalidInput, match="12 is not a multiple of 8"):
        catalog.expand(template, {"batch": 12})
    assert catalog.expand(template, {"batch": 16}).parameters == {"batch": 16}

def test_default_is_checked_where_it_is_written(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(TEMPLATE.replace("32", "33"))
    with pytest.raises(TemplateError, match="33 is not a multiple of 8") as caught:
        load_template(path)
    assert caught.value.line == 7
""",
    beside="tests/unit/services/jobs",
    judges=[
        DESCRIBED,
        "tests/contract/templates",
        "tests/unit/services/jobs/test_templates.py",
    ],
    most_files=4,
    generated=["frontend/openapi.json"],
)


def follow(recipe: Recipe, folder: Path) -> None:
    """Apply the edits to a copy of the tree, generate what follows, and run the tests there."""
    for name in COPIED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # With their times, so that the compiled modules stay valid.
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, symlinks=True)
        else:
            shutil.copy2(ROOT / name, target)
    insertions = [(name, line, text + line) for name, line, text in recipe.edits]
    for name, old, new in (*insertions, *((name, text, "") for name, text in recipe.removed)):
        path = folder / name
        source = path.read_text()
        assert source.count(old) == 1, f"{name}: {old!r}"
        path.write_text(source.replace(old, new))
    module = Path(recipe.beside, "test_recipe.py")
    (folder / module).write_text(recipe.test)
    paths = [folder / "backend", folder, folder / "runtime", folder / "scripts"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "AITNE_REQUIRE": ""}

    def run(*argv: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, *argv],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for name in recipe.generated:
        (folder / name).write_text(run(*GENERATORS[name]))
    run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", module, *recipe.judges)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "recipe",
    [JOB_FIELD, SLURM_OPTION, MEASURED_VALUE, TEMPLATE_FIELD],
    ids=["job_field", "slurm_option", "measured_value", "template_field"],
)
def test_recipe_needs_these_files_only(recipe: Recipe, tmp_path: Path) -> None:
    assert len({name for name, _, _ in recipe.edits}) <= recipe.most_files
    follow(recipe, tmp_path)
