"""``project``, the administrators' part of it, and ``usage report``."""

from __future__ import annotations

from typing import Any

from tests.support.fake_api import USAGE_MONTH, USAGE_ROW, FakeApi, platform
from tests.unit.cli.conftest import Aitne

PROJECT: dict[str, Any] = {
    "name": "vision",
    "title": "Vision",
    "description": "Cameras",
    "members": ["ada", "bob"],
    "managers": ["ada"],
    "state": "active",
    "note": None,
    "requested_by": "ada",
    "closed_by": None,
    "expires_at": "2026-12-01T00:00:00Z",
    "budget": {"gpu_hours": 100, "cpu_hours": None, "period": "month", "since": None},
    "extension": None,
    "created_at": "2026-01-01T00:00:00Z",
}
BALANCE: dict[str, Any] = {
    "project": "vision",
    "period": "month",
    "since": "2026-03-01T00:00:00Z",
    "until": "2026-04-01T00:00:00Z",
    "as_of": "2026-03-05T10:00:00Z",
    "gpu_hours": {"budget": 100, "used": 60.5, "remaining": 39.5},
    "cpu_hours": {"budget": None, "used": 4.0, "remaining": None},
    "exhausted": False,
}
INVITATION: dict[str, Any] = {
    "id": "5f2d1c0b9a8e7d6c",
    "project": "vision",
    "role": "member",
    "created_by": "ada",
    "created_at": "2026-03-01T00:00:00Z",
    "expires_at": "2026-03-08T00:00:00Z",
    "uses": 0,
    "max_uses": 3,
    "revoked_at": None,
}
LINK = "http://aitne.test/invite#s3cret"
PREVIEW: dict[str, Any] = {
    "project": "vision",
    "title": "Vision",
    "description": "Cameras",
    "role": "member",
    "invited_by": "ada",
    "inviter_name": "Ada L.",
    "expires_at": "2026-03-08T00:00:00Z",
    "open": True,
    "closed_reason": None,
}


def test_a_project_and_what_it_has_left(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/projects/vision", PROJECT)
    api.on("GET", "/projects/vision/balance", BALANCE)
    done = aitne("project", "show", "vision")
    assert done.status == 0, done.err
    for text in ("60.5 used of 100, 39.5 left", "4 used", "2026-12-01", "ada, bob", "Cameras"):
        assert text in done.out


def test_the_list_says_who_leads_and_when_it_ends(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/projects", {"items": [PROJECT]})
    done = aitne("project", "ls", "--state", "active")
    assert api.requests[-1].query == {"state": ["active"]}
    assert done.out.splitlines()[1].split() == [
        "vision",
        "active",
        "2",
        "ada",
        "2026-12-01",
        "Vision",
    ]


def test_asking_for_a_project(api: FakeApi, aitne: Aitne) -> None:
    api.on("POST", "/projects", {**PROJECT, "state": "requested"})
    done = aitne(
        *("project", "create", "vision", "--title", "Vision", "--reason", "A grant"),
        *("--until", "2026-12-01"),
    )
    assert done.status == 0, done.err
    sent = api.requests[-1].json
    assert (sent["reason"], sent["expires_at"]) == ("A grant", "2026-12-01T00:00:00+00:00")
    assert "once an administrator approves it" in done.err


def test_the_link_is_all_that_is_answered(api: FakeApi, aitne: Aitne) -> None:
    api.on("POST", "/projects/vision/invitations", {"invitation": INVITATION, "url": LINK})
    done = aitne("project", "invite", "vision", "--uses", "3", "--for", "2d")
    assert done.out == f"{LINK}\n"
    assert api.requests[-1].json == {"role": "member", "max_uses": 3, "lifetime": "2d"}


def test_joining_shows_first_who_invites(api: FakeApi, aitne: Aitne) -> None:
    api.on("POST", "/invitations/preview", PREVIEW, PREVIEW)
    api.on("POST", "/invitations/accept", {"project": "vision", "user": "eve", "role": "member"})
    declined = aitne("project", "join", LINK, typed="n\n")
    assert "Ada L." in declined.out
    assert [each.path for each in api.requests] == ["/invitations/preview"]
    done = aitne("project", "join", LINK, typed="y\n")
    assert done.status == 0, done.err
    assert api.requests[-1].json == {"token": "s3cret"}
    assert "You are a member of vision" in done.err


def test_destructive_project_commands_need_confirmation(api: FakeApi, aitne: Aitne) -> None:
    for words in (("close", "vision"), ("remove", "vision", "bob")):
        assert aitne("project", *words).status == 2
    assert api.requests == []
    api.on("POST", "/projects/vision/close", {**PROJECT, "state": "closed"})
    done = aitne("project", "close", "vision", "--reason", "Over", "--yes")
    assert api.requests[-1].json == {"reason": "Over"}
    assert "Undo: aitne project reopen vision" in done.err


def test_members_that_slurm_does_not_know(api: FakeApi, aitne: Aitne) -> None:
    rows = [
        {"project": "vision", "user": "ada", "role": "manager", "limits": {}, "in_slurm": True},
        {"project": "vision", "user": "bob", "role": "member", "limits": {}, "in_slurm": False},
    ]
    api.on("GET", "/projects/vision/members", {"items": rows})
    done = aitne("project", "members", "vision")
    assert [line.split(maxsplit=2) for line in done.out.splitlines()[1:]] == [
        ["ada", "manager"],
        ["bob", "member", "after the next sync"],
    ]
    api.on("PUT", "/projects/vision/members/eve", rows[1])
    done = aitne("project", "add", "vision", "eve", "--role", "manager")
    assert api.requests[-1].json["role"] == "manager"
    assert "aitne admin sync" in done.err


def test_waiting_jobs_of_project_are_listed_over_all_pages(api: FakeApi, aitne: Aitne) -> None:
    job = {
        "id": "3b7a1f00-0000-4000-8000-000000000001",
        "name": "train",
        "owner": "bob",
        "resources": "2 nodes with 4 a100, 8 CPUs",
        "pending_since": "2026-03-01T00:00:00Z",
        "reason": "Waits for the limit of project vision.",
        "expected_start_at": None,
    }
    pages = [{"items": [job], "next_cursor": cursor, "total": 2} for cursor in ("next", None)]
    api.on("GET", "/projects/vision/waiting", *pages)
    done = aitne("project", "waiting", "vision")
    assert done.out.count("Waits for the limit of project vision.") == 2


def test_an_administrator_answers_requests(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/projects/vision", {**PROJECT, "state": "requested", "note": "A grant"})
    api.on("POST", "/projects/vision/approve", PROJECT)
    api.on("GET", "/me", platform("after_sync"))
    done = aitne("admin", "project", "approve", "vision", "--gpu-hours", "500", "--total", "--yes")
    assert done.status == 0, done.err
    assert "A grant" in done.out
    budget = {"gpu_hours": 500, "cpu_hours": None, "period": "total"}
    [post] = [each for each in api.requests if each.method == "POST"]
    assert post.json == {"expires_at": None, "budget": budget, "limits": None}
    assert "vision: active. Slurm has it after `aitne admin sync`." in done.err
    api.on("POST", "/projects/vision/decline", {**PROJECT, "state": "closed"})
    aitne("admin", "project", "decline", "vision", "--reason", "No grant", "--yes")
    assert api.requests[-1].json == {"reason": "No grant"}


def test_an_end_and_a_budget_are_one_thing_or_the_other(api: FakeApi, aitne: Aitne) -> None:
    for words in (("end", "vision"), ("end", "vision", "--until", "2027-01-01", "--never")):
        assert aitne("admin", "project", *words).status == 2
    assert aitne("admin", "project", "budget", "vision").status == 2
    assert api.requests == []
    api.on("PUT", "/projects/vision/end", PROJECT)
    api.on("PUT", "/projects/vision/budget", PROJECT)
    aitne("admin", "project", "end", "vision", "--never")
    assert api.requests[-1].json == {"expires_at": None}
    aitne("admin", "project", "budget", "vision", "--none")
    assert api.requests[-1].json == {}


def test_a_months_report(api: FakeApi, aitne: Aitne) -> None:
    found = {
        "project": "vision",
        "title": "Vision",
        **USAGE_MONTH,
        "source": "platform",
        "rows": [USAGE_ROW],
        "total": {**USAGE_ROW, "user": ""},
        "waits": [{"user": "ada", "jobs": 2, "median_s": 60, "p90_s": 90, "max_s": 7200}],
        "outcomes": {"COMPLETED": 1, "FAILED": 1},
        "months": [],
        "balance": BALANCE,
    }
    api.on("GET", "/projects/vision/report", found)
    done = aitne("usage", "report", "vision", "--month", "2026-03")
    assert done.status == 0, done.err
    assert api.requests[-1].query == {"month": ["2026-03"]}
    for text in ("COMPLETED 1, FAILED 1", "3.25", "H200", "1m 30s", "2h", "2.00 kWh", "own jobs"):
        assert text in done.out
    api.on("GET", "/projects/vision/report", found)
    assert aitne("--json", "usage", "report", "vision").json["month"] == "2026-03"


def test_usage_is_a_verb_by_itself(api: FakeApi, aitne: Aitne) -> None:
    found = {
        **USAGE_MONTH,
        "rows": [],
    }
    api.on("GET", "/usage", found, found)
    assert aitne("usage").status == 0
    assert aitne("usage", "--json").json == found
