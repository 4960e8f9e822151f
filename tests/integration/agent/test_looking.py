"""Tests of what the agent reports beside the program: Git state, packages, metrics, output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.agent_protocol import AgentReport
from aitne.core.models.job_snapshot import MOST_DIFF, Taken, WrittenFiles
from aitne.core.models.sweep import Results
from tests.support.agents import Job, Platform

KINDS = ("snapshot", "results", "files")
EVENTS = Path(__file__).parents[2] / "assets" / "tensorboard" / "events.out.tfevents.scalars"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of ``job``."""
    folder = tmp_path / "job" / "1"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def git(folder: Path, *words: str) -> str:
    who = (
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(work: Path) -> Path:
    git(work, "init")
    (work / "train.py").write_text("lr = 0.1\n")
    (work / ".gitignore").write_text("*.log\n")
    git(work, "add", ".")
    git(work, "commit", "-m", "first")
    git(work, "remote", "add", "origin", "https://ada:s3cret@git.example.org/lab/model.git?token=x")
    return work


def last(platform: Platform, kind: str) -> dict[str, Any]:
    def there(reports: list[AgentReport]) -> bool:
        return any(getattr(each, kind) is not None for each in reports)

    found = [getattr(each, kind) for each in platform.until(there) if getattr(each, kind)]
    return dict(found[-1])


def test_the_commit_and_the_changes_of_the_folder(
    job: Job, platform: Platform, repository: Path
) -> None:
    (repository / "train.py").write_text("lr = 0.01\n")
    (repository / "notes ü.txt").write_text("mine")
    (repository / "x.log").write_text("ignored")
    below = repository / "deep"
    below.mkdir()
    assert job.run("true", url=platform.url, workdir=str(below)) == 0
    taken = Taken.model_validate(last(platform, "snapshot"))
    state = taken.git
    assert state is not None
    assert taken.workdir == str(below)
    assert state.root == str(repository)
    assert (state.commit, state.branch) == (git(repository, "rev-parse", "HEAD"), "main")
    assert state.remote == "https://git.example.org/lab/model.git"
    assert "s3cret" not in str(last(platform, "snapshot"))
    assert state.dirty
    assert state.untracked == ("notes ü.txt",)
    assert "-lr = 0.1\n+lr = 0.01\n" in state.diff
    assert (state.diff_bytes, state.diff_cut) == (len(state.diff), False)
    git(repository, "checkout", "--", "train.py")
    subprocess.run(["git", "apply"], input=state.diff.encode(), cwd=repository, check=True)
    assert (repository / "train.py").read_text() == "lr = 0.01\n"
    assert taken.host is not None
    assert taken.host.node == "node01"


def test_a_job_that_removes_its_own_folder_ends_as_it_would(
    job: Job, platform: Platform, work: Path
) -> None:
    assert job.run(f"rm -r {work}", url=platform.url, workdir=str(work)) == 0
    written = WrittenFiles.model_validate(last(platform, "files"))
    assert (written.folder, written.files) == (str(work), ())


def test_a_long_diff_is_cut_and_says_so(job: Job, platform: Platform, repository: Path) -> None:
    (repository / "train.py").write_text("".join(f"x{n} = 'ü'\n" for n in range(60_000)))
    assert job.run("true", url=platform.url, workdir=str(repository)) == 0
    state = Taken.model_validate(last(platform, "snapshot")).git
    assert state is not None
    assert state.diff_cut
    assert state.diff.endswith("\n")
    assert len(state.diff) <= MOST_DIFF < state.diff_bytes


def test_a_folder_without_git_and_a_repository_without_commits(
    job: Job, platform: Platform, work: Path
) -> None:
    git(work, "init")
    (work / "a").write_text("")
    assert job.run("true", url=platform.url, workdir=str(work)) == 0
    state = Taken.model_validate(last(platform, "snapshot")).git
    assert state is not None
    assert (state.commit, state.branch, state.untracked) == (None, "main", ("a",))
    shutil.rmtree(work / ".git")
    (job.folder / "fence").unlink()
    platform.reports.clear()
    assert job.run("true", url=platform.url, workdir=str(work)) == 0
    taken = Taken.model_validate(last(platform, "snapshot"))
    assert (taken.git, taken.notes) == (None, ())


def test_a_git_that_hangs_holds_nothing_up(
    job: Job, platform: Platform, repository: Path, tmp_path: Path
) -> None:
    stuck = tmp_path / "bin"
    stuck.mkdir()
    (stuck / "git").write_text(f"#!/bin/sh\n: >{tmp_path}/begun\nexec sleep 60\n")
    (stuck / "git").chmod(0o755)
    until_it_runs = f"until [ -e {tmp_path}/begun ]; do sleep .02; done"
    assert job.run(until_it_runs, url=platform.url, workdir=str(repository), path=[str(stuck)]) == 0
    reports = platform.until(lambda found: found[-1].phase == "finished")
    # It would name the git that took too long, had the job waited for that.
    assert not any(report.snapshot for report in reports)


def test_the_packages_of_a_virtual_environment(
    job: Job, platform: Platform, work: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    packages = venv / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.13.0+cpu", "Foo_Bar.baz-1.0", "no_version"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    assert job.run("true", url=platform.url, workdir=str(work), venv=str(venv)) == 0
    found = Taken.model_validate(last(platform, "snapshot")).environment
    assert found is not None
    assert (found.kind, found.path, found.python) == ("venv", str(venv), "3.12.4")
    assert found.packages == {"torch": "2.13.0+cpu", "foo-bar-baz": "1.0"}


def test_the_packages_of_a_conda_environment(
    job: Job, platform: Platform, work: Path, tmp_path: Path
) -> None:
    base = tmp_path / "miniforge3"
    meta = base / "envs" / "vision" / "conda-meta"
    meta.mkdir(parents=True)
    (meta / "python-3.12.4-h1234_0.json").write_text("{}")
    (meta / "history").write_text("")
    around = {"CONDA_EXE": str(base / "bin" / "conda")}
    facts = {"url": platform.url, "workdir": str(work), "conda": "vision", "around": around}
    assert job.run("true", **facts) == 0
    found = Taken.model_validate(last(platform, "snapshot")).environment
    assert found is not None
    assert (found.kind, found.packages) == ("conda", {"python": "3.12.4"})


WRITERS: dict[str, tuple[str, dict[str, float], dict[str, list[list[float]]]]] = {
    "json": (
        'echo \'{"accuracy": 0.5, "epoch": 3, "name": "x", "ok": true}\' > "$AITNE_METRICS/metrics.json"',
        {"accuracy": 0.5},
        {"accuracy": [[3, 0.5]]},
    ),
    "lines": (
        'printf \'{"step":1,"loss":2.0}\\nno\\n{"step":2,"loss":NaN}\\n{"step":3,"loss":1}\\n{"lo\' '
        '> "$AITNE_METRICS/metrics.jsonl"',
        {"loss": 1.0},
        {"loss": [[1, 2.0], [3, 1.0]]},
    ),
    "in the folder": (
        'printf \'{"loss":2}\\n{"loss":1}\\n\' > metrics.jsonl',
        {"loss": 1.0},
        {"loss": [[0, 2.0], [1, 1.0]]},
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_measured_values_and_series_are_reported(
    job: Job, platform: Platform, work: Path, name: str
) -> None:
    command, values, series = WRITERS[name]
    assert job.run(command, url=platform.url, workdir=str(work)) == 0
    found = Results.model_validate(last(platform, "results"))
    assert found.values == values
    assert {
        key: [list(point) for point in points] for key, points in found.series.items()
    } == series
    if name == "lines":
        assert len(found.notes) == 2, "what was left out is said"


def test_an_old_file_in_the_folder_is_no_result_of_this_job(
    job: Job, platform: Platform, work: Path
) -> None:
    (work / "metrics.json").write_text('{"loss": 1}')
    assert job.run("true", url=platform.url, workdir=str(work)) == 0
    reports = platform.until(lambda found: found[-1].phase == "finished")
    assert all(each.results is None for each in reports)


def test_the_event_files_of_tensorboard(job: Job, platform: Platform, work: Path) -> None:
    copy = f'mkdir -p "$AITNE_METRICS/run" && cp {EVENTS} "$AITNE_METRICS/run/"'
    assert job.run(copy, url=platform.url, workdir=str(work)) == 0
    found = Results.model_validate(last(platform, "results"))
    assert found.values["run/accuracy"] == 1.0
    assert found.values["run/tf2/packed"] == 0.75
    assert [step for step, _ in found.series["run/loss"]] == [0, 1, 2, 3, 4]
    assert found.sources == (f"run/{EVENTS.name}",)


def test_values_arrive_while_it_runs(job: Job, platform: Platform, work: Path) -> None:
    job.start(
        'echo \'{"loss": 1}\' > "$AITNE_METRICS/metrics.jsonl"; exec sleep 60',
        url=platform.url,
        workdir=str(work),
    )
    assert last(platform, "results")["values"] == {"loss": 1}


def test_a_task_of_a_sweep_is_given_its_setting(job: Job, platform: Platform, work: Path) -> None:
    settings = [
        {"values": {"lr": lr, "name": "$(id)"}, "env": {"AITNE_PARAM_LR": str(lr)}}
        for lr in (0.1, 0.01)
    ]
    (work / "metrics.json").write_text('{"of": 1}')
    code = job.run(
        'cp "$AITNE_PARAMS" seen.json; echo "lr $AITNE_PARAM_LR"; '
        'echo "{\\"lr\\": $AITNE_PARAM_LR}" > "$AITNE_METRICS/metrics.json"; touch metrics.json',
        url=platform.url,
        workdir=str(work),
        settings=settings,
        around={"SLURM_ARRAY_TASK_ID": "1"},
    )
    assert code == 0
    assert job.log == "lr 0.01\n"
    assert json.loads((work / "seen.json").read_text()) == settings[1]["values"]
    assert last(platform, "results")["values"] == {"lr": 0.01}, "the shared folder is not read"


def test_the_files_that_were_written(job: Job, platform: Platform, work: Path) -> None:
    """Files saved just before the job are none of them; a copy that keeps an old time is one."""
    (work / "train.py").write_text("")
    (work / "old").write_text("1")
    os.utime(work / "old", (1, 1))
    command = (
        "mkdir -p out .cache && echo hello > out/model.bin; touch .cache/x; ln -s out/model.bin l; "
        "cp -p old out/copy"
    )
    assert job.run(command, url=platform.url, workdir=str(work)) == 0
    found = WrittenFiles.model_validate(last(platform, "files"))
    written = [("out/model.bin", 6), ("out/copy", 1)]
    assert [(each.path, each.size_bytes) for each in found.files] == written
    assert {path.name for path in work.iterdir()} == {"train.py", "old", "out", ".cache", "l"}
    assert (found.folder, found.cut) == (str(work), False)


def test_all_reports_arrive_before_finished_phase(
    job: Job, platform: Platform, repository: Path
) -> None:
    command = "echo '{\"a\": 1}' > metrics.json"
    assert job.run(command, url=platform.url, workdir=str(repository)) == 0
    reports = platform.until(lambda found: found[-1].phase == "finished")
    told = [{kind for kind in KINDS if getattr(each, kind) is not None} for each in reports]
    assert set().union(*told) == set(KINDS)
    assert max(map(len, told)) == 1, "together they may be too much for one"
