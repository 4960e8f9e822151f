"""``apply`` of several job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_api import JOB_ID, TOO_MANY_CPUS, FakeApi, job
from tests.unit.cli.conftest import Aitne


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.aitne.yml"
    path.write_text("name: digits\ncommands: [python train.py]\nresources:\n  cpu: 2\n")
    return str(path)


def test_apply_submits_all_documents_and_files_together(
    aitne: Aitne, api: FakeApi, job_file: str, tmp_path: Path
) -> None:
    two = tmp_path / "two.yml"
    two.write_text("name: a\ncommands: ['true']\n---\nname: b\ncommands: ['true']\n---\n")
    items = [{"job": job(name=name), "problem": None} for name in ("a", "b", "digits")]
    api.on("POST", "/jobs:batch", {"created": 3, "items": items})
    done = aitne("apply", str(two), job_file, "--yes")
    assert (done.status, done.out) == (0, f"{JOB_ID}\n" * 3)
    assert "Submitted 3 of 3 jobs." in done.err
    (request,) = api.sent("POST", "/jobs:batch")
    assert [file["name"] for file in request.json["items"]] == ["a", "b", "digits"]
    assert aitne("apply", str(two), "--yes", "--wait").status == 2
    assert aitne("plan", str(two)).status == 2
    assert len(api.sent("POST", "/jobs:batch")) == 1


def test_apply_names_the_file_and_line_of_a_refused_job_file_among_many(
    aitne: Aitne, api: FakeApi, job_file: str
) -> None:
    items = [{"job": job(), "problem": None}, {"job": None, "problem": TOO_MANY_CPUS}]
    api.on("POST", "/jobs:batch", {"created": 1, "items": items})
    done = aitne("apply", job_file, job_file, "--yes")
    assert (done.status, done.out) == (1, f"{JOB_ID}\n")
    assert f"resources.cpu ({job_file}:4)" in done.err
    assert "Submitted 1 of 2 jobs." in done.err
    as_json = aitne("apply", job_file, job_file, "--yes", "--json")
    assert as_json.json[0]["id"] == JOB_ID
    assert as_json.json[1]["error"]["problems"] == [{**TOO_MANY_CPUS["problems"][0], "line": 4}]
