from __future__ import annotations

import pytest
import yaml

from aitne.cli import job_file_reader
from aitne.core.float_encoding import encode_floats
from aitne.core.jobs.job_file_rendering import render_job_file
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.models.job_file import JobFile
from tests.support.jobs import make_spec


def test_a_job_says_what_made_it() -> None:
    spec = make_spec(
        name="edsr",
        commands=("set -e\npython train.py",),
        env={"A": "1", "AITNE_PARAM_X": "2", "SLURM_EXPORT_ENV": "NONE"},
        environment={"modules": ("cuda/12.6",)},
        resources={
            "nodes": 2,
            "cpu": 8,
            "memory_bytes": 16 << 30,
            "gpu": {"count": 4, "type": "a100"},
        },
        max_duration_s=5_400,
        array="0-9%2",
        retry={"max": 2, "on": ["lost"]},
        slurm={"partition": "gpu", "exclusive": True},
    )
    file = job_to_file(spec)
    assert file == {
        "name": "edsr",
        "project": "vision",
        "environment": {"modules": ["cuda/12.6"]},
        "commands": ["set -e\npython train.py"],
        "env": {"A": "1", "SLURM_EXPORT_ENV": "NONE"},
        "resources": {"nodes": 2, "cpu": 8, "memory": "16G", "gpu": "a100:4"},
        "max_duration": "1h30m",
        "retry": {"max": 2, "on": ["lost"]},
        "array": "0-9%2",
        "slurm": {"partition": "gpu", "exclusive": True},
    }
    assert JobFile.model_validate(file).max_duration == 5_400
    assert "  - |-\n    set -e\n    python train.py\n" in render_job_file(file)


def test_job_file_contains_values_other_than_defaults() -> None:
    spec = make_spec(type="session", inactivity_duration_s=1_800, slurm={"requeue": False})
    file = job_to_file(spec)
    assert (file["inactivity_duration"], file["slurm"]) == ("30m", {"requeue": False})
    assert JobFile.model_validate(file).inactivity_duration == 1_800
    always = job_to_file(make_spec(type="session", inactivity_duration_s=None))
    assert JobFile.model_validate(always).inactivity_duration == "off"
    assert "inactivity_duration" not in job_to_file(make_spec())


def test_job_file_contains_the_script_as_it_was_imported() -> None:
    script = {"commands": ("#!/bin/sh\n#SBATCH -n 2\nsrun x $1\n",), "args": ("a b",)}
    resources = {"gpu": {"count": 2}, "sbatch_options": ("gpus-per-node", "ntasks")}
    file = job_to_file(make_spec(**script, script_path="job.sh", resources=resources))
    assert (file["args"], file["script_path"]) == (["a b"], "job.sh")
    assert file["resources"]["sbatch_options"] == ["gpus-per-node", "ntasks"]
    again = JobFile.model_validate(file)
    assert (again.commands, again.args) == ([*script["commands"]], script["args"])
    assert again.resources.sbatch_options == resources["sbatch_options"]


def test_of_a_template_only_its_name_and_parameters_are_said() -> None:
    spec = make_spec(type="session", template="jupyterlab", parameters={"x": 1}, commands=("run",))
    file = job_to_file(spec)
    assert (file["type"], file["template"], file["parameters"]) == (
        "session",
        "jupyterlab",
        {"x": 1},
    )
    assert "commands" not in file


def test_infinite_numbers_are_written_as_in_yaml() -> None:
    values = {"most": {"$float": "inf"}, "sizes": [1, {"$float": "nan"}], "text": ".inf"}
    text = render_job_file({"notebook": {"path": "a.ipynb", "parameters": values}})
    assert "most: .inf\n" in text
    (source,) = job_file_reader._parse_job_files("x", text.encode())
    assert encode_floats(source.content["notebook"]["parameters"]) == values


@pytest.mark.parametrize("command", ["0\x85", "a\x85b", "a\x85\nb", "\u2028 x"])
def test_line_breaks_of_unicode_are_kept_in_the_job_file(command: str) -> None:
    content = {"commands": [command]}
    assert yaml.safe_load(render_job_file(content)) == content
