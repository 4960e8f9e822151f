"""Batch scripts on the command line: ``import``, and the commands that submit job files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aitne.client.working_tree_scan import read_working_tree
from aitne.core import tree_document
from tests.support.fake_api import JOB_ID, FakeApi, job, problem
from tests.unit.cli.conftest import Aitne
from tests.unit.cli.test_commands import plan

SCRIPT = "#!/bin/bash\n#SBATCH --gpus=2 -t 1:00:00\n#SBATCH --output=x.log --begin=16:00\npython train.py\n"
PLAIN = "#!/bin/bash\n#SBATCH --gpus=2 -t 1:00:00 --mem=4G\npython train.py\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the batch script job.sbatch."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "job.sbatch").write_text(PLAIN)
    monkeypatch.chdir(place)
    return place


def tree_of(folder: Path, api: FakeApi) -> str:
    """Return the digest of the folder's upload, which the platform takes."""
    digest = tree_document.compute_tree_digest(
        tree_document.serialize_tree(read_working_tree(folder, max_files=9, max_bytes=9_999).tree)
    )
    limits = {"max_files": 9, "max_bytes": 9_999, "quota_bytes": 99_999}
    api.on("GET", "/trees:limits", limits)
    api.on(
        "PUT", f"/trees/{digest}", {"missing": [], "digest": digest, "files": 1, "size_bytes": 1}
    )
    return digest


def test_a_script_is_printed_as_a_job_file(aitne: Aitne, api: FakeApi, tmp_path: Path) -> None:
    source = tmp_path / "job.sbatch"
    source.write_text(SCRIPT)
    done = aitne("import", str(source))
    assert done.status == 0
    assert "gpu: 2\n" in done.out
    assert "log_files:\n  - x.log\n" in done.out
    assert "job.sbatch:3: --begin '16:00' has no time zone" in done.err
    strict = aitne("import", str(source), "--strict", "-o", str(tmp_path / "no.yml"))
    assert (strict.status, strict.out) == (1, "")
    assert not (tmp_path / "no.yml").exists()
    assert aitne("import", str(source), "--json").json["file"]["max_duration"] == "1h"


def test_a_file_that_is_there_is_left_alone(aitne: Aitne, api: FakeApi, tmp_path: Path) -> None:
    source, to = tmp_path / "job.sbatch", tmp_path / "job.aitne.yml"
    source.write_text(SCRIPT)
    assert aitne("import", str(source), "-o", str(to)).status == 0
    written = to.read_text()
    refused = aitne("import", str(source), "-o", str(to))
    assert refused.status == 2
    assert "--force" in refused.err
    to.write_text("")
    assert aitne("import", str(source), "-o", str(to), "--force").status == 0
    assert to.read_text() == written


def test_import_of_file_that_is_no_script_is_refused(
    aitne: Aitne, api: FakeApi, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\xff\0")
    assert "is not text" in aitne("import", str(tmp_path / "x")).err
    assert "cannot be read" in aitne("import", str(tmp_path / "y")).err
    (tmp_path / "het").write_text("#!/bin/bash\n#SBATCH hetjob\nsrun a : b\n")
    het = aitne("import", str(tmp_path / "het"))
    assert (het.status, het.out) == (2, "")
    assert "line 2: a heterogeneous job" in het.err


def test_words_after_the_dashes_are_a_command_line_of_sbatch(aitne: Aitne, folder: Path) -> None:
    (folder / "run.sh").write_text("#!/bin/bash\n#SBATCH -N 1 -n 1\n./solve $1\n")
    words = ("-o", "job.yml", "--force", "--", "-o", "out-%j.txt", "-N2", "run.sh", "4", "-x")
    done = aitne("import", *words)
    assert (done.status, done.out) == (0, "")
    written = (folder / "job.yml").read_text()
    assert "args:\n  - '4'\n  - '-x'\n" in written
    assert "log_files:\n  - out-%j.txt\n" in written
    assert "run.sh:3: args the script reads arguments" in aitne("import", "--", "run.sh").err
    wrapped = aitne("import", "--json", "--", "--wrap", "hostname", "-n2").json["file"]
    assert (wrapped["name"], wrapped["commands"]) == ("wrap", ["#!/bin/sh\n\nhostname\n"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("-N", "2", "run.sh"), "aitne import -- -N 2 run.sh"),
        (
            ("--submit", "-o", "a", "--nodes=2", "run.sh"),
            "aitne import --submit -o a -- --nodes=2 run.sh",
        ),
        (("run.sh", "-p", "gpu", "--yes"), "aitne import --yes -- run.sh -p gpu"),
        (("run.sh", "4"), "aitne import -- run.sh 4"),
        (("run.sh", "--", "4"), "aitne import -- 4 run.sh"),
    ],
)
def test_option_or_argument_before_the_dashes_is_refused_with_the_line(
    aitne: Aitne, folder: Path, words: tuple[str, ...], line: str
) -> None:
    done = aitne("import", *words)
    assert (done.status, done.out) == (2, "")
    assert f"`{line}`" in done.err


def test_environment_of_sbatch_counts(
    aitne: Aitne, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    done = aitne("import", "job.sbatch", "--json", "--strict")
    assert done.json["file"]["slurm"] == {"partition": "gpu"}
    assert "job.sbatch: --partition is set by SBATCH_PARTITION" in done.err


def test_strict_fails_for_an_option_that_a_site_would_have_to_permit(
    aitne: Aitne, folder: Path, api: FakeApi
) -> None:
    assert aitne("import", "--strict", "--", "--hint=nomultithread", "job.sbatch").status == 0
    words = ("--", "--cpu-freq=high", "job.sbatch")
    assert aitne("import", "--strict", *words).status == 1
    # The platform knows what its site permits.
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    assert aitne("import", "--strict", "--submit", "--yes", *words).status == 0


def test_refusal_of_a_submitted_script_names_its_line(
    aitne: Aitne, folder: Path, api: FakeApi
) -> None:
    field = {"field": "slurm.extra", "message": "--cpu-freq is not permitted"}
    api.on("POST", "/jobs:plan", problem(422, "invalid_input", "One field is wrong.", field))
    (folder / "run.sh").write_text("#!/bin/bash\n\n#SBATCH --cpu-freq=high\ntrue\n")
    done = aitne("import", "--submit", "--yes", "run.sh")
    assert (done.status, "slurm.extra (run.sh:3)" in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    "words",
    [("apply", "job.sbatch"), ("submit", "job.sbatch"), ("import", "job.sbatch", "--submit")],
)
def test_script_runs_in_a_copy_of_an_uploaded_folder(
    aitne: Aitne, api: FakeApi, folder: Path, words: tuple[str, ...]
) -> None:
    digest = tree_of(folder, api)
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    done = aitne(*words, "--sync", ".", "--yes")
    assert (done.status, done.out) == (0, f"{JOB_ID}\n")
    (sent,) = api.sent("POST", "/jobs")
    assert sent.json == {
        "name": "job.sbatch",
        "commands": [PLAIN],
        "script_path": "job.sbatch",
        "resources": {"gpu": 2, "memory": "4G", "sbatch_options": ["gpus"]},
        "max_duration": "1h",
        "log_files": ["slurm-%j.out"],
        "tree": digest,
    }


def test_imported_job_file_can_be_synchronized(aitne: Aitne, api: FakeApi, folder: Path) -> None:
    assert aitne("import", "job.sbatch", "-o", "job.aitne.yml").status == 0
    assert f"workdir: {folder}\n" in (folder / "job.aitne.yml").read_text()
    digest = tree_of(folder, api)
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    assert aitne("apply", "job.aitne.yml", "--sync", ".", "--yes").status == 0
    (sent,) = api.sent("POST", "/jobs")
    assert (sent.json["tree"], "workdir" in sent.json) == (digest, False)
    other = aitne("apply", "job.aitne.yml", "--sync", "..", "--yes")
    assert other.status == 2
    message = (
        f"aitne: job.aitne.yml:8: with --sync the job runs in a copy of {folder.parent}. Remove"
    )
    assert other.err.startswith(message)
    assert "FIELD" not in other.err


def test_plan_and_notes_of_a_script_are_shown(aitne: Aitne, api: FakeApi, folder: Path) -> None:
    (folder / "job.sbatch").write_text(SCRIPT)
    script = {"commands": [SCRIPT], "script_path": "job.sbatch", "args": ["two words", "4"]}
    api.on("POST", "/jobs:plan", plan(spec=script))
    done = aitne("plan", "job.sbatch")
    assert done.status == 0
    assert re.search(r"^Runs +job\.sbatch 'two words' 4$", done.out, re.MULTILINE), done.out
    assert "job.sbatch:3: --begin '16:00' has no time zone" in done.err
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -t 4h\ntrue\n")
    refused = aitne("submit", "job.sbatch", "--yes")
    assert (refused.status, "job.sbatch: line 2: --time '4h'" in refused.err) == (2, True)


def test_script_without_directives_is_named(aitne: Aitne, api: FakeApi, folder: Path) -> None:
    (folder / "run.sh").write_text("#!/bin/bash\nfor x in a; do echo; done\n")
    assert "`aitne import run.sh --submit`" in aitne("submit", "run.sh").err
    (folder / "job.yml").write_text("#!/usr/bin/env aitne\ncommands: [true]\n")
    api.on("POST", "/jobs:plan", plan())
    assert aitne("plan", "job.yml").status == 0


def test_sync_without_a_submission_is_refused(aitne: Aitne, folder: Path) -> None:
    assert "--submit" in aitne("import", "job.sbatch", "--sync", ".").err
