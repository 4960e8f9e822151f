"""``aitne get``: what it downloads and lists, and what it says about the rest."""

from __future__ import annotations

from email.utils import formatdate
from pathlib import Path
from typing import Any

from tests.support.fake_api import JOB_ID, Answer, FakeApi, job, page, problem
from tests.unit.cli.conftest import Aitne

BASE = f"/files/jobs/{JOB_ID}/workdir/"
FILE = {"path": "out/model.pt", "size_bytes": 7, "modified_at": "2023-11-14T22:13:20Z"}
ENTRY = {"name": "m\x1b[2J.pt", "path": "m%1B%5B2J.pt", "kind": "file", "link": False, **FILE}


def ended(api: FakeApi, state: str = "COMPLETED", **changes: Any) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job(state, **changes))
    api.on("GET", f"/jobs/{JOB_ID}/files", {"folder": "/w", "files": [FILE], "cut": False})
    headers = {
        "ETag": '"v1"',
        "Content-Length": "7",
        "Last-Modified": formatdate(1.7e9, usegmt=True),
    }
    api.on("GET", f"{BASE}out/model.pt/", problem(409, "conflict", "It is not a folder."))
    api.on("GET", f"{BASE}out/model.pt", Answer(200, [b"weights"], headers))


def test_get_downloads_the_output_files(api: FakeApi, aitne: Aitne, tmp_path: Path) -> None:
    ended(api)
    done = aitne("get", JOB_ID, "-o", str(tmp_path))
    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines()[-1] == f"Downloaded 1 file (7 B) to {tmp_path}."
    assert (tmp_path / "out" / "model.pt").read_bytes() == b"weights"
    again = aitne("get", JOB_ID, "out/model.pt", "-o", str(tmp_path), "--json")
    assert [file["state"] for file in again.json["files"]] == ["unchanged"]
    assert "1 already here" in again.err
    (tmp_path / "out" / "model.pt").write_bytes(b"edited")
    kept = aitne("get", JOB_ID, "-o", str(tmp_path))
    assert "the local file is newer and was kept" in kept.err


def test_get_names_files_that_it_could_not_download(
    api: FakeApi, aitne: Aitne, tmp_path: Path
) -> None:
    ended(api)
    gone = {**FILE, "path": "gone\x1b[2J"}
    api.on("GET", f"/jobs/{JOB_ID}/files", {"folder": "/w", "files": [FILE, gone], "cut": False})
    done = aitne("get", JOB_ID, "-o", str(tmp_path))
    assert done.status == 1
    assert "gone\\x1b[2J: There is no" in done.err
    assert (tmp_path / "out" / "model.pt").exists()


def test_get_lists_output_files_and_folders(api: FakeApi, aitne: Aitne) -> None:
    ended(api)
    assert "out/model.pt  7 B" in aitne("get", JOB_ID, "--list").out
    api.on("GET", BASE, page(ENTRY, {**ENTRY, "name": "out", "kind": "folder"}))
    listed = aitne("get", JOB_ID, "--list", ".").out
    assert listed.splitlines()[2].split()[:2] == ["out/", "folder"]
    assert "\x1b" not in listed
    api.on("GET", f"/files/jobs/{JOB_ID}/checkpoints/", page(ENTRY))
    found = aitne("get", JOB_ID, "--list", "--from", "checkpoints", "--json").json
    assert [each["path"] for each in found] == ["out/model.pt"]


def test_get_says_when_output_files_are_listed(api: FakeApi, aitne: Aitne, tmp_path: Path) -> None:
    ended(api, "RUNNING")
    done = aitne("get", JOB_ID)
    assert done.status == 1
    assert "has not ended (it is RUNNING)" in done.err
    assert aitne("get", JOB_ID, "out/model.pt", "-o", str(tmp_path)).status == 0
    ended(api, array="0-3")
    assert "name a task" in aitne("get", JOB_ID).err
    assert "workdir, checkpoints, metrics" in aitne("get", JOB_ID, "--from", "home").err


def test_files_is_reserved_and_names_get(aitne: Aitne) -> None:
    for words in (("files", JOB_ID), ("files",), ("files", "--help")):
        done = aitne(*words)
        assert (done.status, "aitne get JOB --list" in done.err) == (2, True)
    assert "  files" not in aitne("--help").out
