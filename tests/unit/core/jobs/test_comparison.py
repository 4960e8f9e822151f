"""Two runs side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from aitne.core.jobs.job_comparison import ComparisonInput, compare_jobs
from aitne.core.models.comparison import Comparison
from aitne.core.models.job import Job
from aitne.core.models.job_snapshot import Snapshot, Taken
from aitne.core.models.sweep import SweepFile, SweepSpec
from aitne.core.models.usage_sample import Sample
from tests.support.jobs import CREATED_AT, make_array, make_job


def snapshot_of(job: Job, **taken: Any) -> Snapshot:
    facts = {"schema": 1, "taken_at": CREATED_AT, "workdir": "/w", **taken}
    return Snapshot(
        attempt=1,
        taken=Taken.model_validate(facts) if taken else None,
        image=job.spec.image,
        image_digest=None,
        datasets=job.spec.datasets,
        modules=(),
        spec=job.spec,
    )


def run_of(job: Job, taken: dict[str, Any] | None = None, **fields: Any) -> ComparisonInput:
    return ComparisonInput(job=job, snapshot=snapshot_of(job, **(taken or {})), **fields)


def different(found: Comparison) -> dict[str, tuple[Any, Any]]:
    return {
        f"{section.key} {row.field}": (row.a, row.b)
        for section in found.sections
        for row in section.rows
        if not row.equal
    }


def sample(used_bytes: int, **gpu: float) -> Sample:
    gpus = ({"index": 0, **gpu},) if gpu else ()
    return Sample(time=CREATED_AT, node="n1", cpu=1.0, memory_bytes=used_bytes, gpu=gpus)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, True, "busy", None, 2])
def test_amount_that_is_none_is_left_out_of_a_sample(value: Any) -> None:
    gpu = {"index": 0, "utilization": value, "memory_bytes": 7}
    fields = {"time": CREATED_AT, "node": "n1", "cpu": 1, "memory_bytes": 1}
    found = Sample(**fields, gpu=[gpu])
    assert found.gpu == ({"index": 0, "memory_bytes": 7},)
    with pytest.raises(ValidationError):
        Sample(**{**fields, "cpu": float("nan")})
    job = make_job()
    use = different(compare_jobs(run_of(job, samples=[found]), run_of(job, samples=[sample(1)])))
    assert not [name for name in use if "gpu_mean" in name]


def test_a_run_does_not_differ_from_itself() -> None:
    job = make_job(spec={"env": {"A": "1"}, "commands": ("true",)})
    git = {"git": {"root": "/w", "commit": "a" * 40, "diff": "+x\n", "dirty": True}}
    run = run_of(job, git, samples=[sample(1 << 30)], values={"loss": 0.5})
    found = compare_jobs(run, run)
    assert (found.differences, different(found)) == (0, {})
    assert found.a.diff == "+x\n"


def test_fields_of_the_job_file_and_of_the_code() -> None:
    one = make_job(spec={"env": {"SEED": "1"}, "max_duration_s": 60, "commands": ("a", "b")})
    two = make_job(spec={"env": {"SEED": "2", "X": ""}, "max_duration_s": 60, "commands": ("a",)})
    gits = [
        {"git": {"root": "/w", "commit": each * 40, "branch": "main", "untracked": ["n"]}}
        for each in "ab"
    ]
    found = different(compare_jobs(run_of(one, gits[0]), run_of(two, gits[1])))
    assert found == {
        "job commands": ("a\nb", "a"),
        "job env.SEED": ("1", "2"),
        "job env.X": (None, ""),
        "code commit": ("a" * 40, "b" * 40),
    }


def test_uploaded_trees_and_repositories_are_compared() -> None:
    trees = [
        {
            "tree": {
                "digest": each * 64,
                "files": 1,
                "size_bytes": 1,
                "commit": "c" * 40,
                "dirty": True,
            }
        }
        for each in "ab"
    ]
    first, second = (run_of(make_job(spec=tree)) for tree in trees)
    assert different(compare_jobs(first, first)) == {}
    assert different(compare_jobs(first, second)) == {"code tree": ("a" * 64, "b" * 64)}
    repos = [{"repo": {"url": "https://example.org/a", "ref": ref}} for ref in ("v1", "v2")]
    first, second = (run_of(make_job(spec=repo)) for repo in repos)
    assert different(compare_jobs(first, second)) == {"job repo.ref": ("v1", "v2")}


def test_changes_of_one_length_that_say_something_else_are_a_difference() -> None:
    job = make_job()
    gits = [
        {"git": {"root": "/w", "commit": "a" * 40, "diff": each, "diff_bytes": 8, "dirty": True}}
        for each in ("+lr=0.1\n", "+lr=0.2\n")
    ]
    assert [*different(compare_jobs(*(run_of(job, each) for each in gits)))] == ["code diff"]


def test_tasks_of_a_sweep_differ_by_their_settings() -> None:
    sweep = SweepSpec.from_file(SweepFile.model_validate({"parameters": {"lr": [0.1, 0.2]}}))
    array, _ = make_array("0-1")
    tasks = [
        make_job(array_job_id=array.id, array_task_id=task, spec={"sweep": sweep, "array": "0-1"})
        for task in (0, 1)
    ]
    found = compare_jobs(*(run_of(task) for task in tasks))
    assert different(found) == {"parameters lr": (0.1, 0.2)}


def test_packages_that_are_equal_are_counted_not_listed() -> None:
    def environment(**packages: str) -> dict[str, Any]:
        return {"environment": {"kind": "venv", "path": "/v", "packages": packages}}

    job = make_job()
    one = run_of(job, environment(torch="2.1", numpy="1", old="1"))
    two = run_of(job, environment(torch="2.2", numpy="1", new="1"))
    found = compare_jobs(one, two)
    assert different(found) == {
        "packages new": (None, "1"),
        "packages old": ("1", None),
        "packages torch": ("2.1", "2.2"),
    }
    (section,) = [each for each in found.sections if each.key == "packages"]
    assert section.equal_omitted == 1
    (section,) = [
        each for each in compare_jobs(one, run_of(job)).sections if each.key == "packages"
    ]
    assert section.note is not None
    billed = run_of(job, environment(), image_packages={"torch": "9"})
    assert different(compare_jobs(billed, two))["packages torch"] == ("9", "2.2")


def test_measured_values_differ_only_beyond_noise() -> None:
    job = make_job()
    one = run_of(job, samples=[sample(100, utilization=0.5, memory_bytes=10), sample(90)])
    two = run_of(job, samples=[sample(102, utilization=0.9, memory_bytes=10)])
    assert different(compare_jobs(one, two)) == {"use gpu_mean": (0.5, 0.9)}


def test_how_long_it_waited_and_ran() -> None:
    began = CREATED_AT + timedelta(seconds=5)
    runs = [
        run_of(make_job(started_at=began, ended_at=began + timedelta(seconds=each), exit_code=0))
        for each in (10, 20)
    ]
    assert different(compare_jobs(*runs)) == {"outcome duration_s": (10.0, 20.0)}
    first, second = (
        run_of(make_job(started_at=CREATED_AT + timedelta(milliseconds=each)))
        for each in (651, 628)
    )
    assert different(compare_jobs(first, second)) == {}
