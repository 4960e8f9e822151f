"""``admin project``, ``admin member``, ``admin sync`` and ``usage``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_api import USAGE_MONTH, USAGE_ROW, FakeApi, platform
from tests.unit.cli.conftest import Aitne

USE = {
    "limit": "max_gpus",
    "used": 6,
    "maximum": 8,
    "by_user": {"bob": 2, "ada": 4},
    "summary": "project vision: 6 of 8 GPUs in use by ada 4, bob 2",
}
LIMITS: dict[str, Any] = {
    "project": "vision",
    "limits": {"max_gpus": 8, "max_gpus_by_type": {"h200": 4}, "max_wall_s": 7200, "qos": ["a"]},
    "members": [{"project": "vision", "user": "ada", "limits": {"max_memory_bytes": 1 << 30}}],
    "use": [USE],
    "as_of": None,
}
DIFFERENCE = {
    "project": "vision",
    "user": "ada",
    "field": "member",
    "slurm": "missing",
    "platform": "present",
}


def report(*differences: Any, applied: bool = False) -> dict[str, Any]:
    return {
        "cluster": "dev",
        "differences": list(differences),
        "unmanaged": ["account physics: no project"],
        "digest": "d1",
        "applied": applied,
    }


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ("at_once", "vision: new limits. They apply at once; running jobs continue."),
        ("after_sync", "vision: new limits. Slurm has it after `aitne admin sync`."),
    ],
)
def test_limits_that_are_not_given_stay(api: FakeApi, aitne: Aitne, limits: str, text: str) -> None:
    api.on("GET", "/me", platform(limits))
    api.on("GET", "/projects/vision/limits", LIMITS)
    api.on("PUT", "/projects/vision/limits", LIMITS)
    done = aitne(
        *("admin", "project", "limits", "vision", "--max-gpus", "16", "--max-gpus", "h200=none"),
        *("--max-wall", "none", "--max-memory", "200G", "--qos", "a,b"),
    )
    assert done.status == 0, done.err
    [put] = [each for each in api.requests if each.method == "PUT"]
    assert text in done.err
    assert put.json == {
        "max_gpus": 16,
        "max_gpus_by_type": {},
        "max_wall_s": None,
        "max_memory_bytes": "200G",
        "qos": ["a", "b"],
    }
    assert "ada 4, bob 2" in done.out


def test_limits_are_shown_without_a_change(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/projects/vision/limits", LIMITS)
    done = aitne("admin", "project", "limits", "vision")
    assert (done.status, [each.method for each in api.requests]) == (0, ["GET"])
    for text in ("h200 GPUs at once", "2h", "memory at once", "1 GiB"):
        assert text in done.out


def test_a_members_limits(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/projects/vision/limits", LIMITS, LIMITS)
    api.on("PUT", "/projects/vision/members/ada", LIMITS["members"][0])
    api.on("GET", "/me", platform("at_once"))
    done = aitne("admin", "project", "limits", "vision", "--user", "ada", "--max-jobs", "3")
    assert done.status == 0, done.err
    [put] = [each for each in api.requests if each.method == "PUT"]
    assert put.json["limits"]["max_jobs"] == 3
    assert put.json["limits"]["max_memory_bytes"] == 1 << 30
    api.on("GET", "/projects/vision/limits", LIMITS)
    done = aitne("admin", "project", "limits", "vision", "--user", "eve", "--max-jobs", "3")
    assert done.status == 2
    assert "ada" in done.err


def test_a_manager_holds_the_project_and_its_members_to_less(api: FakeApi, aitne: Aitne) -> None:
    found = {**LIMITS, "granted": LIMITS["limits"], "own": {"max_gpus": 6, "max_jobs": 2}}
    api.on("GET", "/projects/vision/limits", found, found, found)
    api.on("PUT", "/projects/vision/limits/own", found)
    done = aitne("project", "limits", "vision", "--max-gpus", "4", "--max-wall", "12h", "--json")
    assert done.status == 0, done.err
    own = {"max_gpus": 4, "max_jobs": 2, "max_wall_s": "12h", "max_gpus_by_type": {}}
    assert (api.requests[-1].json, done.json["project"]) == (own, "vision")
    api.on("PUT", "/projects/vision/members/ada", LIMITS["members"][0])
    api.on("GET", "/me", platform("at_once"))
    done = aitne("project", "limits", "vision", "--user", "ada", "--max-gpus", "h200=1")
    assert done.status == 0, done.err
    [put] = [each for each in api.requests if each.path.endswith("/members/ada")]
    assert put.json["limits"] == {"max_memory_bytes": 1 << 30, "max_gpus_by_type": {"h200": 1}}


def test_sync_applies_what_it_showed(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/admin/sync", report(DIFFERENCE))
    api.on("POST", "/admin/sync", report(DIFFERENCE, applied=True))
    done = aitne("admin", "sync", "--yes")
    assert done.status == 0, done.err
    assert api.requests[-1].json == {"digest": "d1"}
    assert "vision" in done.out
    assert "unchanged: account physics" in done.err
    assert "1 changes were made" in done.err


@pytest.mark.parametrize("typed", [None, "no"])
def test_sync_changes_nothing_without_a_yes(api: FakeApi, aitne: Aitne, typed: str | None) -> None:
    api.on("GET", "/admin/sync", report(DIFFERENCE))
    done = aitne("admin", "sync", **({} if typed is None else {"typed": typed}))
    assert done.status != 0
    assert [each.method for each in api.requests] == ["GET"]
    assert "missing" in done.out


def test_sync_as_json_looks_only(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/admin/sync", report(DIFFERENCE))
    done = aitne("admin", "sync", "--json")
    assert (done.status, done.json["applied"]) == (0, False)
    assert len(done.json["differences"]) == 1


def test_sync_finds_nothing(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/admin/sync", report())
    done = aitne("admin", "sync", "--yes")
    assert (done.status, [each.method for each in api.requests]) == (0, ["GET"])
    assert "Nothing differs" in done.err


def test_usage(api: FakeApi, aitne: Aitne) -> None:
    found = {
        **USAGE_MONTH,
        "rows": [USAGE_ROW],
    }
    for _ in range(2):
        api.on("GET", "/projects/vision/usage", found)
    done = aitne("usage", "--project", "vision", "--month", "2026-03", "--csv")
    assert done.out == (
        "month,project,user,jobs,cpu_hours,gpu_hours,gpu_hours_h200,energy_j\n"
        "2026-03,vision,ada,2,1.5,3.25,3.25,7200000\n"
    )
    assert api.requests[-1].query == {"month": ["2026-03"]}
    shown = aitne("usage", "--project", "vision")
    assert "h200 3.25" in shown.out
    assert "2026-03-05 10:00 UTC" in shown.err


def test_members(api: FakeApi, aitne: Aitne) -> None:
    api.on("PUT", "/projects/vision/members/eve", {"project": "vision", "user": "eve"})
    api.on("GET", "/me", platform("at_once"), platform("after_sync"))
    added = aitne("admin", "member", "add", "vision", "eve", "--default")
    assert added.err.strip() == "eve: member of vision."
    [put] = [each for each in api.requests if each.method == "PUT"]
    assert put.json == {"limits": None, "role": None, "default": True}
    api.on("DELETE", "/projects/vision/members/eve", b"")
    assert aitne("admin", "member", "remove", "vision", "eve", "--yes").status == 0
    assert aitne("admin", "member", "remove", "vision", "eve").status == 2
