"""Paths that a job names: what is refused, and what is only noted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import InvalidInput
from aitne.core.models.storage_area import NO_ANSWER, PathFacts
from aitne.services.jobs.path_existence_checks import check_paths, named_paths
from tests.support.jobs import make_job, make_spec
from tests.unit.services.conftest import ADA, Bench
from tests.unit.services.jobs.test_jobs_create import job_file


async def test_plan_and_create_refuse_missing_working_folder(bench: Bench, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for operation in (bench.jobs.plan, bench.jobs.create):
        with pytest.raises(InvalidInput) as refused:
            await operation(ADA, job_file(workdir=missing))
        (problem,) = refused.value.problems
        assert (problem.field, problem.value) == ("workdir", missing)
        assert problem.message == f"there is no folder {missing}"
    plan = await bench.jobs.plan(ADA, job_file(workdir=str(tmp_path)))
    assert not [warning for warning in plan.warnings if str(tmp_path) in warning]


async def test_plan_refuses_folder_that_is_no_virtual_environment(
    bench: Bench, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await bench.jobs.plan(ADA, job_file(environment={"venv": str(tmp_path)}))
    assert [problem.field for problem in refused.value.problems] == ["environment.venv"]
    await bench.jobs.plan(ADA, job_file(environment={"venv": sys.prefix}))


async def test_plan_notes_script_that_is_missing(bench: Bench, tmp_path: Path) -> None:
    file = job_file(workdir=str(tmp_path), commands=["python train.py --epochs 3"])
    plan = await bench.jobs.plan(ADA, file)
    assert f"There is no file {tmp_path}/train.py, which the first command runs." in plan.warnings
    (tmp_path / "train.py").touch()
    assert not [
        warning for warning in (await bench.jobs.plan(ADA, file)).warnings if "train.py" in warning
    ]


@pytest.mark.parametrize(
    "command",
    ["git clone x && python train.py", "python -m train", "cd model; ./train.py", "make", "python"],
)
def test_command_with_uncertain_script_is_not_examined(command: str) -> None:
    assert named_paths(make_spec(commands=[command], home="/home/ada")) == ()


def missing(path: str, problem: str = "No such file or directory") -> dict[str, PathFacts]:
    return {path: PathFacts(path=path, problem=problem)}


@pytest.mark.parametrize(
    ("changes", "problem", "remote", "note"),
    [
        ({}, "No such file or directory", True, "unless its nodes have it"),
        ({}, NO_ANSWER, False, "could not be checked"),
        ({"after": [make_job().id]}, "No such file or directory", False, "must create it"),
    ],
)
def test_uncertain_folder_is_noted(
    changes: dict[str, Any], problem: str, remote: bool, note: str
) -> None:
    spec = make_spec(workdir="/data/x", commands=["true"], **changes)
    problems, notes = check_paths(spec, missing("/data/x", problem), remote=remote)
    assert not problems
    assert note in notes[0]


def test_missing_folder_below_home_is_refused_on_slurm_too() -> None:
    spec = make_spec(workdir="~/x", home="/home/ada", commands=["true"])
    problems, _ = check_paths(spec, missing("/home/ada/x"), remote=True)
    assert [problem.field for problem in problems] == ["workdir"]
