"""Tests of the command `aitne ranks`."""

from __future__ import annotations

from typing import Any

from tests.support.fake_api import JOB_ID, FakeApi, job, page, sse
from tests.unit.cli.conftest import Aitne
from tests.unit.cli.test_commands import plan

GROUP = "9c000000-0000-4000-8000-000000000002"
SESSION = f"/sessions/{JOB_ID}/ranks"


def group(state: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    return job(state, id=GROUP, name="Ranks of look", session_id=JOB_ID, **changes)


def lay_out(api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("READY", type="session", name="look"))
    api.on("GET", f"/jobs/{GROUP}", group())
    api.on("POST", f"{SESSION}:plan", plan(spec={"name": "Ranks of look"}))
    api.on("POST", SESSION, group("PENDING_SUBMIT"))
    api.on("GET", "/events", sse())


def test_ranks_start_asks_and_sends_what_was_chosen(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    line = ["ranks", "start", JOB_ID, "16", "--nodes", "4", "--gpu", "a100", "--idle", "15m"]
    done = aitne(*line, "--partition", "gpu", typed="y\n")
    assert (done.status, done.out) == (0, f"{GROUP}\n")
    assert "Ranks of look" in done.err
    assert f"aitne ranks stop {JOB_ID[:8]} {GROUP[:8]}" in done.err
    body = {
        "ranks": 16,
        "nodes": 4,
        "gpu": "a100",
        "idle": "15m",
        "slurm": {"partition": "gpu"},
    }
    (request,) = api.sent("POST", SESSION)
    assert request.json == api.sent("POST", f"{SESSION}:plan")[0].json == body
    assert request.headers["idempotency-key"]
    assert aitne("ranks", "start", JOB_ID, "16", typed="n\n").status != 0
    assert len(api.sent("POST", SESSION)) == 1


def test_ranks_start_waits_until_they_run(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    api.on("GET", f"/jobs/{GROUP}", group("QUEUED"), group(version=2))
    done = aitne("ranks", "start", JOB_ID, "4", "--yes", "--wait", "--json")
    assert done.status == 0
    assert done.json["state"] == "RUNNING"


def test_ranks_that_end_before_they_run_are_status_1(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    message = "Released, because session look has ended."
    api.on("GET", f"/jobs/{GROUP}", group("CANCELLED", message=message))
    done = aitne("ranks", "start", JOB_ID, "4", "--yes", "--wait")
    assert done.status == 1
    assert message in done.err


def test_ranks_that_can_never_run_are_not_started(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    api.on("POST", f"{SESSION}:plan", plan(fits=False, pending_reason="no node has 64 GPUs"))
    done = aitne("ranks", "start", JOB_ID, "64", "--yes")
    assert done.status != 0
    assert "no node has 64 GPUs" in done.err
    assert api.sent("POST", SESSION) == []


def test_ranks_are_listed_by_session_or_all(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    api.on("GET", SESSION, page(group()))
    api.on("GET", "/jobs", page(group(), job()))
    for words in ([JOB_ID], []):
        assert [each["id"] for each in aitne("ranks", "ls", *words, "--json").json] == [GROUP]
    assert GROUP[:8] in aitne("ranks", "ls", JOB_ID).out
    api.on("GET", SESSION, page())
    assert "No ranks are running or waiting." in aitne("ranks", "ls", JOB_ID).err


def test_ranks_stop_releases_one_or_all(aitne: Aitne, api: FakeApi) -> None:
    lay_out(api)
    api.on("POST", f"{SESSION}/{GROUP}/release", group())
    api.on("POST", f"{SESSION}/release", page(group()))
    for words in ([GROUP], []):
        done = aitne("ranks", "stop", JOB_ID, *words)
        assert done.status == 0
        assert f"{GROUP[:8]} Ranks of look: is released" in done.err
    api.on("POST", f"{SESSION}/release", page())
    assert "look has no ranks." in aitne("ranks", "stop", JOB_ID).err
