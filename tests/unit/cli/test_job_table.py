"""Lists in any order, many ended at once, GPUs by type."""

from __future__ import annotations

from tests.support.fake_api import FakeApi
from tests.support.fake_api import job as job_view
from tests.unit.cli.conftest import Aitne


def test_the_list_is_sorted_and_cut_by_the_platform(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", {"items": [], "next_cursor": None, "total": 0})
    assert aitne("ps", "--sort", "gpus", "--asc", "--limit", "5", "--node", "n1").status == 0
    (sent,) = api.sent("GET", "/jobs")
    assert (sent.query["sort"], sent.query["order"]) == (["gpus"], ["asc"])
    assert (sent.query["limit"], sent.query["node"]) == (["5"], ["n1"])
    assert aitne("ps", "--since", "yesterday").status == 2
    old = aitne("ps", "--most", "7")
    assert (old.status, "Use --limit." in old.err) == (0, True)
    assert api.sent("GET", "/jobs")[1].query["limit"] == ["7"]


def test_gpus_by_type(aitne: Aitne, api: FakeApi) -> None:
    gpu = {
        "type": "a100",
        "total": 8,
        "free": 1,
        "used": 7,
        "unavailable": 0,
        "end_unknown": 0,
        "waiting": 4,
        "next_free_at": "2026-03-01T12:00:00Z",
        "forecast": [],
    }
    api.on("GET", "/cluster/capacity", {"gpus": [gpu], "as_of": None, "stale": False})
    assert "a100" in aitne("node", "gpus").out
    assert aitne("node", "gpus", "--json").json == [gpu]


def test_stop_needs_to_know_what(aitne: Aitne, api: FakeApi) -> None:
    assert "--all" in aitne("stop", "--yes").err
    assert aitne("stop", "x", "--all", "--yes").status == 2


def test_all_of_ones_own_are_stopped_by_one_request(aitne: Aitne, api: FakeApi) -> None:
    me = {
        "user": {"name": "ada", "display_name": "", "role": "user", "default_project": "ada"},
        "projects": ["ada"],
        "csrf_token": None,
        "platform": {},
    }
    api.on("GET", "/me", me)
    jobs = [
        job_view("QUEUED", id=f"3b7a1f00-0000-4000-8000-00000000000{n}", name=f"j{n}")
        for n in range(3)
    ]
    api.on("GET", "/jobs", {"items": jobs, "next_cursor": None, "total": 3})
    items = [
        {"id": jobs[0]["id"], "outcome": "asked", "name": "j0", "state": "QUEUED", "reason": None},
        {"id": jobs[1]["id"], "outcome": "asked", "name": "j1", "state": "QUEUED", "reason": None},
        {
            "id": jobs[2]["id"],
            "outcome": "ended",
            "name": "j2",
            "state": "FAILED",
            "reason": "Over.",
        },
    ]
    api.on("POST", "/jobs:cancel", {"requested": 2, "items": items})
    done = aitne("stop", "--all", "--name", "j", "--yes")
    assert done.status == 0
    assert "2 end." in done.err
    assert "j2: Over." in done.err
    (listed,) = api.sent("GET", "/jobs")
    assert (listed.query["owner"], listed.query["q"]) == (["ada"], ["j"])
    (sent,) = api.sent("POST", "/jobs:cancel")
    assert sent.json == {"ids": [job["id"] for job in jobs]}


def test_jobs_from_outside_are_selected_and_marked(aitne: Aitne, api: FakeApi) -> None:
    outside = job_view(origin="outside", name="by-sbatch")
    api.on("GET", "/jobs", {"items": [outside], "next_cursor": None, "total": 1})
    done = aitne("ps", "--all", "--origin", "outside")
    (sent,) = api.sent("GET", "/jobs")
    assert sent.query["origin"] == ["outside"]
    assert "job, outside" in done.out
