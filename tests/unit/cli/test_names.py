"""Selection of jobs by name, the last lines of a log, and names of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_api import JOB_ID, Answer, CannedAnswer, FakeApi, Request, job, page
from tests.unit.cli.conftest import Aitne
from tests.unit.cli.test_commands import OTHER, plan


def listed_by_state(*jobs: dict[str, Any]) -> Any:
    """Return the list of jobs, filtered by state as in the API."""

    def listed(request: Request) -> CannedAnswer:
        states = request.query.get("state")
        return page(*(each for each in jobs if states is None or each["state"] in states))

    return listed


def test_name_selects_newest_job_although_it_has_ended(aitne: Aitne, api: FakeApi) -> None:
    older = job("RUNNING", id=OTHER, created_at="2026-11-20T04:00:00Z")
    api.on("GET", "/jobs", listed_by_state(job("FAILED"), older))
    api.on("GET", f"/jobs/{JOB_ID}/logs", b"it broke")
    assert aitne("logs", "digits").out == "it broke"
    api.on("GET", f"/jobs/{JOB_ID}/failure", {"failure": None})
    assert aitne("show", "digits", "--json").json["state"] == "FAILED"


def test_stop_and_extend_take_newest_unfinished_job_of_name(aitne: Aitne, api: FakeApi) -> None:
    running = job("READY", id=OTHER, type="session")
    api.on("GET", "/jobs", listed_by_state(job("FAILED", type="session"), running))
    api.on("POST", f"/sessions/{OTHER}/stop", job("COMPLETING", id=OTHER))
    longer = job("READY", id=OTHER, type="session", expires_at="2026-11-21T06:00:00Z")
    api.on("POST", f"/jobs/{OTHER}/extend", longer)
    assert aitne("stop", "digits", "--yes", "--json").json[0]["id"] == OTHER
    assert aitne("extend", "digits", "1h", "--yes").status == 0


@pytest.mark.parametrize(
    "line", [["stop", "digits"], ["extend", "digits", "1h"], ["attach", "digits"]]
)
def test_command_for_running_jobs_says_that_job_has_ended(
    aitne: Aitne, api: FakeApi, line: list[str]
) -> None:
    api.on("GET", "/jobs", listed_by_state(job("FAILED", type="session")))
    done = aitne(*line)
    assert (done.status, done.err) == (1, "aitne: digits (3b7a1f00) has ended.\n")


def test_name_selects_own_job_before_those_of_other_users(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/me", {"user": {"name": "ada"}})
    api.on("GET", "/jobs", page(job(id=OTHER, owner="bob"), job()))
    api.on("GET", f"/jobs/{JOB_ID}/logs", b"mine")
    assert aitne("logs", "digits").out == "mine"
    api.on("GET", "/jobs", page(job(id=OTHER, owner="bob"), job(owner="eve")))
    done = aitne("stop", "digits", "--yes")
    assert done.status == 3
    assert "give the id of one" in done.err


@pytest.mark.parametrize(
    ("lines", "shown"),
    [("2", "last but one\nlast\n"), ("0", ""), ("9999999", None), ("1", "last\n")],
)
def test_logs_tail_counts_lines(aitne: Aitne, api: FakeApi, lines: str, shown: str | None) -> None:
    log = b"x" * 70 + b"\n" + b"line\n" * 300_000 + b"last but one\nlast\n"

    def read(request: Request) -> CannedAnswer:
        query = {name: int(values[0]) for name, values in request.query.items()}
        start = query.get("offset", max(0, len(log) - query.get("tail", len(log))))
        data = log[start : start + query.get("limit", 1 << 20)]
        return Answer(200, [data], {"X-Log-Offset": str(start), "X-Log-Size": str(len(log))})

    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/logs", read)
    assert aitne("logs", JOB_ID, "--tail", lines).out == (log.decode() if shown is None else shown)


@pytest.mark.parametrize("verb", ["apply", "submit", "run"])
def test_apply_and_its_aliases_take_file_as_argument(
    aitne: Aitne, api: FakeApi, tmp_path: Path, verb: str
) -> None:
    job_file = str(tmp_path / "job.aitne.yml")
    Path(job_file).write_text("name: digits\ncommands: python train.py\n")
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    assert aitne(verb, job_file, "--yes").status == 0
    assert api.sent("POST", "/jobs")[0].json["name"] == "digits"
    assert aitne(verb, job_file, "-f", job_file).status == 2


@pytest.mark.parametrize("verb", ["cancel", "kill"])
def test_stop_has_aliases(aitne: Aitne, api: FakeApi, verb: str) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("POST", f"/jobs/{JOB_ID}/cancel", job("COMPLETING"))
    assert aitne(verb, JOB_ID, "--yes").status == 0
    assert api.sent("POST", f"/jobs/{JOB_ID}/cancel")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["session", "start", "x", "--time", "1h"], "--time is --max-duration here."),
        (["session", "start", "x", "-c", "4"], "-c is --cpu here."),
        (["apply", "--time=1h", "x"], "set max_duration in the job file"),
        (["submit", "x", "--partition", "gpu"], "set slurm.partition in the job file"),
        (["plan", "x", "--ntasks", "4"], "set distributed.ranks_per_node in the job file"),
        (["run", "python", "train.py"], "`commands: python train.py`"),
    ],
)
def test_option_of_sbatch_names_the_one_here(aitne: Aitne, line: list[str], hint: str) -> None:
    done = aitne(*line)
    assert done.status == 2
    assert hint in done.err
    assert "Possible options" not in done.err
