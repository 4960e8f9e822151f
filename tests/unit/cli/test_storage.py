"""Tests of the command `aitne storage`."""

from __future__ import annotations

import re
from typing import Any

from tests.support.fake_api import FakeApi
from tests.unit.cli.conftest import Aitne


def area(name: str, path: str, **facts: Any) -> dict[str, Any]:
    project = facts.pop("project", None)
    return {
        "area": {"name": name, "kind": "user", "path": path, "project": project},
        "available": True,
        "writable": True,
        "free_bytes": 5 << 30,
        **facts,
    }


VIEW: dict[str, Any] = {
    "account": "alice",
    "areas": [
        area(
            "home",
            "/home/alice",
            user_quota={
                "used_bytes": 4 << 30,
                "limit_bytes": 10 << 30,
                "used_files": 7,
                "limit_files": 100,
            },
        ),
        area("scratch", "/scratch/alice", user_quota={"used_bytes": 1 << 20}),
        area(
            "projects",
            "/projects/vision",
            project="vision",
            writable=False,
            user_quota={"used_bytes": 1},
            project_quota={"used_bytes": 3 << 40, "limit_bytes": 2 << 40},
        ),
        area("tape", "/tape/alice", available=False, free_bytes=None),
    ],
    "problems": ["There is no folder /tape/alice.", "Evil \x1b[31m"],
    "as_of": "2026-03-01T12:00:00Z",
}


FOLDERS = {"jobs": 2, "size_bytes": 3 << 30, "files": 9}


def test_a_row_for_each_area(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/storage", VIEW)
    api.on("GET", "/storage/jobs", FOLDERS)
    done = aitne("storage")
    assert done.status == 0, done.err
    lines = [re.split("  +", line) for line in done.out.splitlines()]
    assert lines == [
        ["AREA", "PATH", "USED", "FREE", "FILES", "PROBLEM"],
        ["home", "/home/alice", "[####------] 4 GiB of 10 GiB", "5 GiB", "7 of 100"],
        ["scratch", "/scratch/alice", "1 MiB", "5 GiB"],
        [
            "projects/vision",
            "/projects/vision",
            "[##########] 3 TiB of 2 TiB",
            "5 GiB",
            "read-only",
        ],
        ["tape", "/tape/alice", "missing"],
    ]
    assert done.err.splitlines() == [
        "The folders of 2 ended jobs take 3 GiB in 9 files; `aitne rm` deletes jobs.",
        "There is no folder /tape/alice.",
        "Evil \\x1b[31m",
    ]


def test_json_and_one_project(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/storage", VIEW)
    api.on("GET", "/storage/jobs", FOLDERS)
    done = aitne("storage", "--project", "vision", "--json")
    assert done.json == {**VIEW, "jobs": FOLDERS}
    (sent,) = api.sent("GET", "/storage")
    assert sent.query == {"project": ["vision"]}
