"""``dataset``: the catalogue's verbs, and files beside their manifest."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from aitne.core import dataset_manifest
from aitne.core.dataset_manifest import Entry, ManifestFile
from tests.support.fake_api import Answer, FakeApi, problem
from tests.unit.cli.conftest import Aitne

ME = {"user": {"name": "ada", "default_project": "vision"}, "projects": ["vision"], "platform": {}}
NOBODY = problem(404, "not_found", "There is no dataset div2k:1.0 that you may see.")
NO_MANIFEST = problem(409, "manifest_missing", "The platform has no such manifest.")


def dataset(path: Path | str = "/data/div2k", **changes: Any) -> dict[str, Any]:
    return {
        "name": "div2k",
        "version": "1.0",
        "description": "Photographs.",
        "licence": "academic",
        "owner": "ada",
        "path": str(path),
        "size_bytes": 3 << 30,
        "files": 900,
        "manifest": "ab" * 32,
        "projects": ["vision"],
        "created_at": "2026-11-21T04:00:00Z",
        "verified_at": None,
        "verified_by": None,
        "damaged_files": None,
        "retired": False,
        **changes,
    }


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "data"
    (root / "new\nfolder").mkdir(parents=True)
    (root / "new\nfolder" / "quo'te").write_bytes(b"one")
    (root / os.fsdecode(b"\xff")).write_bytes(b"two")
    return root


def text_of(root: Path) -> bytes:
    entries: list[Entry] = [
        ManifestFile(
            os.fsencode(each.relative_to(root)),
            each.stat().st_size,
            hashlib.sha256(each.read_bytes()).hexdigest(),
        )
        for each in root.rglob("*")
        if each.is_file()
    ]
    return b"".join(dataset_manifest.serialize_manifest(entries))


def packed(text: bytes) -> Answer:
    return Answer(
        200, list(dataset_manifest.compress_manifest([text])), {"Content-Type": "application/gzip"}
    )


def catalogued(api: FakeApi, root: Path, **changes: Any) -> dict[str, Any]:
    """Add a dataset to the API; its files may be changed afterwards."""
    text = text_of(root)
    found = dataset(root, manifest=hashlib.sha256(text).hexdigest(), files=2, **changes)
    api.on("GET", "/datasets/div2k/1.0", found)
    api.on("GET", "/datasets/div2k/1.0/manifest", packed(text))
    return found


def test_the_list(api: FakeApi, aitne: Aitne) -> None:
    items = [
        dataset(version="2", damaged_files=3, verified_at="2026-11-21T04:00:00Z"),
        dataset(retired=True),
    ]
    api.on("GET", "/datasets", {"items": items}, {"items": items})
    done = aitne("dataset", "ls")
    assert done.status == 0, done.err
    assert "damaged (3 paths)" in done.out
    assert "retired" in done.out
    assert "3 GiB" in done.out
    assert aitne("dataset", "ls", "--json").json == items


def test_show_says_how_a_job_reads_it(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/datasets/div2k", {"items": [dataset(version="2", retired=True), dataset()]})
    done = aitne("dataset", "show", "div2k")
    assert done.status == 0, done.err
    for text in ("div2k:1.0", "$AITNE_DATASETS/div2k", "Photographs.", "3 GiB in 900 files"):
        assert text in done.out


def test_add_reads_every_file_and_registers_once(api: FakeApi, aitne: Aitne, data: Path) -> None:
    text = text_of(data)
    digest = hashlib.sha256(text).hexdigest()
    made = dataset(data, manifest=digest)
    api.on("GET", "/datasets/div2k/1.0", NOBODY)
    api.on("GET", "/me", ME)
    api.on("POST", "/datasets", NO_MANIFEST, NO_MANIFEST, made)
    api.on("PUT", f"/manifests/{digest}", {})
    done = aitne(
        *("dataset", "add", "div2k", str(data), "--version", "1.0", "--licence", "academic"),
        typed="y\n",
    )
    assert done.status == 0, done.err
    assert done.out == "div2k:1.0\n"
    assert "6 B in 2 files" in done.err
    assert "members of vision" in done.err
    [put] = api.sent("PUT", f"/manifests/{digest}")
    assert gzip.decompress(put.json) == text
    posted = [each.json for each in api.requests if each.method == "POST"]
    assert posted[-1] == {
        "name": "div2k",
        "version": "1.0",
        "path": str(data),
        "description": "",
        "licence": "academic",
        "project": None,
        "manifest": digest,
    }
    assert list((data.parent / "cache" / "aitne" / "datasets").iterdir()) == []


def test_a_no_reads_and_registers_nothing(api: FakeApi, aitne: Aitne, data: Path) -> None:
    for typed, status in (("n\n", 1), (None, 2)):
        api.on("GET", "/datasets/div2k/1.0", NOBODY)
        api.on("GET", "/me", ME)
        api.on("POST", "/datasets", NO_MANIFEST)
        done = aitne("dataset", "add", "div2k", str(data), "--version", "1.0", typed=typed)
        assert done.status == status
    assert not [each for each in api.requests if each.method == "PUT"]


def test_dataset_refusal_is_reported_before_reading_files(
    api: FakeApi, aitne: Aitne, data: Path
) -> None:
    api.on("GET", "/datasets/div2k/1.0", dataset())
    done = aitne("dataset", "add", "div2k", str(data), "--version", "1.0", "--yes")
    assert (done.status, done.out) == (1, "")
    assert "another --version" in done.err

    api.on("GET", "/datasets/div2k/1.0", NOBODY)
    wrong = {"field": "path", "message": "lies elsewhere", "value": str(data), "allowed": "/data"}
    api.on("POST", "/datasets", problem(422, "invalid_input", "path: lies elsewhere", wrong))
    done = aitne("dataset", "add", "div2k", str(data), "--version", "1.0", "--yes")
    assert done.status == 2
    assert "path: lies elsewhere" in done.err


def test_dataset_files_of_unsupported_kind_are_named(
    api: FakeApi, aitne: Aitne, data: Path
) -> None:
    os.mkfifo(data / "pipe")
    (data / "link").symlink_to("/etc/passwd")
    for words in ((), ("--json",)):
        api.on("GET", "/datasets/div2k/1.0", NOBODY)
        api.on("GET", "/me", ME)
        api.on("POST", "/datasets", NO_MANIFEST)
        done = aitne("dataset", "add", "div2k", str(data), "--version", "1.0", "--yes", *words)
        assert done.status == 2
        assert "2 paths cannot be in a dataset" in done.err
        if words:
            found = done.json["error"]["differences"]
            assert {each["path"] for each in found} == {"pipe", "link"}
        else:
            assert "named pipe" in done.err
    for each in api.requests:
        assert each.method != "PUT"


@pytest.mark.parametrize("path", ["nothing", "data/new\nfolder/quo'te", "empty"])
def test_a_path_that_is_no_dataset(api: FakeApi, aitne: Aitne, data: Path, path: str) -> None:
    (data.parent / "empty").mkdir()
    api.on("GET", "/datasets/div2k/1.0", NOBODY)
    api.on("GET", "/me", ME)
    api.on("POST", "/datasets", NO_MANIFEST)
    done = aitne("dataset", "add", "div2k", str(data.parent / path), "--version", "1.0", "--yes")
    assert done.status == 2
    assert done.out == ""
    assert "Traceback" not in done.err


def test_a_whole_dataset_is_noted_as_such(api: FakeApi, aitne: Aitne, data: Path) -> None:
    found = catalogued(api, data)
    api.on("POST", "/datasets/div2k/1.0/verification", found)
    done = aitne("dataset", "verify", "div2k:1.0")
    assert (done.status, done.out) == (0, ""), done.err
    assert "all 2 files are unchanged" in done.err
    assert api.requests[-1].json == {"manifest": found["manifest"], "damaged_files": 0}


def test_each_difference_is_named_and_noted(api: FakeApi, aitne: Aitne, data: Path) -> None:
    (data / os.fsdecode(b"\xff")).write_bytes(b"twO")
    found = dataset()
    text = b""
    for words in ((), ("--json",)):
        (data / os.fsdecode(b"\xff")).write_bytes(b"two")
        (data / "more").unlink(missing_ok=True)
        found = catalogued(api, data)
        text = text_of(data)
        (data / os.fsdecode(b"\xff")).write_bytes(b"twO")
        (data / "more").write_bytes(b"")
        api.on("POST", "/datasets/div2k/1.0/verification", found)
        report = data.parent / "report"
        done = aitne("dataset", "verify", "div2k:1.0", "--report", str(report), *words)
        assert done.status == 1
        assert api.requests[-1].json == {"manifest": found["manifest"], "damaged_files": 2}
        assert report.read_text() == (
            "differs\t\\xff\thas different content\nadditional\tmore\tis not in the manifest\n"
        )
        if words:
            assert done.json["ok"] is False
            assert done.json["noted"] is True
            assert [each["path"] for each in done.json["differences"]] == ["\\xff", "more"]
        else:
            assert "\\xff  has different content" in done.out
            assert "2 differences from its manifest of 2 files" in done.err
    assert hashlib.sha256(text).hexdigest() == found["manifest"]


def test_of_many_differences_the_first_are_shown_and_all_are_written(
    api: FakeApi, aitne: Aitne, data: Path
) -> None:
    found = catalogued(api, data)
    for number in range(80):
        (data / f"more{number:02}").write_bytes(b"")
    api.on("POST", "/datasets/div2k/1.0/verification", found)
    done = aitne("dataset", "verify", "div2k:1.0")
    assert done.status == 1
    assert len(done.out.splitlines()) == 51
    assert "and 30 more" in done.err
    [report] = [line.removeprefix("All of them: ") for line in done.err.splitlines()[-1:]]
    assert len(Path(report).read_text().splitlines()) == 80


def test_a_copy_is_compared_and_nothing_noted(api: FakeApi, aitne: Aitne, data: Path) -> None:
    catalogued(api, data)
    copy = data.parent / "copy"
    copy.mkdir()
    done = aitne("dataset", "verify", "div2k:1.0", "--path", str(copy))
    assert done.status == 1
    assert done.out.count("missing") >= 2
    assert {each.method for each in api.requests} == {"GET"}


def test_dataset_with_different_manifest_is_refused(api: FakeApi, aitne: Aitne, data: Path) -> None:
    api.on("GET", "/datasets/div2k/1.0", dataset(data))
    api.on("GET", "/datasets/div2k/1.0/manifest", packed(text_of(data)))
    done = aitne("dataset", "verify", "div2k:1.0")
    assert done.status == 1
    assert "another manifest" in done.err


def test_grant_revoke_and_retire(api: FakeApi, aitne: Aitne) -> None:
    api.on("PUT", "/datasets/div2k/1.0/projects/vision", dataset(projects=["vision", "ada"]))
    done = aitne("dataset", "grant", "div2k:1.0", "vision")
    assert (done.status, "vision, ada" in done.err) == (0, True), done.err

    api.on("GET", "/datasets/div2k/1.0", dataset())
    assert aitne("dataset", "revoke", "div2k:1.0", "vision").status == 2
    api.on("GET", "/datasets/div2k/1.0", dataset())
    api.on("DELETE", "/datasets/div2k/1.0/projects/vision", dataset(projects=[]))
    done = aitne("dataset", "revoke", "div2k:1.0", "vision", typed="y\n")
    assert (done.status, "its owner alone" in done.err) == (0, True), done.err

    api.on("GET", "/datasets/div2k/1.0", dataset())
    api.on("PATCH", "/datasets/div2k/1.0", dataset(retired=True))
    done = aitne("dataset", "retire", "div2k:1.0", "--yes", "--json")
    assert (done.status, done.json["retired"]) == (0, True)
    assert api.requests[-1].json == {"retired": True}
