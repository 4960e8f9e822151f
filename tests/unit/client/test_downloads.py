"""Downloads of files of jobs: what arrives, what resumes, and names that would lead elsewhere."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from aitne.client import Client
from aitne.client.errors import Unreachable
from aitne.client.part_file import LocalFileError
from aitne.core.errors import InvalidInput, NotFound
from tests.support.fake_api import JOB_ID, Answer, FakeApi, Refused, Request, page, problem

BASE = f"/files/jobs/{JOB_ID}/workdir/"
TIME = 1_700_000_000
NO_FOLDER = problem(409, "conflict", "out/model.pt is not a folder.")


def sent(
    content: bytes, etag: str = "v1", *, cut_after: int | None = None
) -> Callable[[Request], Answer]:
    """Answer as the API does, with the range that was requested."""

    def answer(request: Request) -> Answer:
        headers = {"ETag": f'"{etag}"', "Last-Modified": formatdate(TIME, usegmt=True)}
        start, status = 0, 200
        if request.headers.get("if-range") == f'"{etag}"':
            start = int(request.headers["range"].removeprefix("bytes=").rstrip("-"))
            status = 206
        body = content[start:]
        headers["Content-Length"] = str(len(body))
        if cut_after is not None:
            return Answer(status, [body[:cut_after]], headers, cut=True)
        return Answer(status, [body], headers)

    return answer


def entry(path: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": path,
        "path": path,
        "kind": "file",
        "link": False,
        "size_bytes": 3,
        "modified_at": "2023-11-14T22:13:20Z",
        "etag": "v1",
        **fields,
    }


def a_file(api: FakeApi, path: str, *answers: Any) -> None:
    api.on("GET", f"{BASE}{path}/", NO_FOLDER)
    api.on("GET", f"{BASE}{path}", *answers)


def fetch(client: Client, to: Path, *paths: str, **options: Any) -> dict[str, str]:
    done = client.jobs.download(JOB_ID, *paths, to=to, **options)
    assert done.problems == {}
    return {file.path: file.state for file in done.files}


def test_a_file_keeps_its_path_and_time(api: FakeApi, client: Client, tmp_path: Path) -> None:
    a_file(api, "out/model.pt", sent(b"weights"))
    assert fetch(client, tmp_path, "out/model.pt") == {"out/model.pt": "downloaded"}
    model = tmp_path / "out" / "model.pt"
    assert (model.read_bytes(), model.stat().st_mtime) == (b"weights", TIME)
    assert os.listdir(tmp_path / "out") == ["model.pt"]


def test_an_interrupted_download_resumes_in_a_later_run(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    a_file(api, "big", sent(b"0123456789", cut_after=4), Refused)
    with pytest.raises(Unreachable):
        client.jobs.download(JOB_ID, "big", to=tmp_path)
    assert not (tmp_path / "big").exists()
    api.on("GET", f"{BASE}big", sent(b"0123456789"))

    assert fetch(client, tmp_path, "big") == {"big": "downloaded"}

    assert (tmp_path / "big").read_bytes() == b"0123456789"
    last = api.sent("GET", f"{BASE}big")[-1].headers
    assert (last["range"], last["if-range"]) == ("bytes=3-", '"v1"')
    assert os.listdir(tmp_path) == ["big"]


def test_a_broken_connection_is_resumed_at_once(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    a_file(api, "big", sent(b"0123456789", cut_after=4), sent(b"0123456789"))
    fetch(client, tmp_path, "big")
    assert (tmp_path / "big").read_bytes() == b"0123456789"
    assert api.sent("GET", f"{BASE}big")[-1].headers["range"] == "bytes=3-"


def test_a_file_that_was_replaced_is_fetched_anew(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    a_file(api, "big", sent(b"old checkpoint", cut_after=5), sent(b"new", "v2"))
    fetch(client, tmp_path, "big")
    assert (tmp_path / "big").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["big"]


def test_a_file_that_changes_all_the_time_is_given_up(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    answers = [sent(b"0123456789", f"v{number}", cut_after=2) for number in range(9)]
    a_file(api, "log", *answers)
    with pytest.raises(InvalidInput, match="changes again and again"):
        client.jobs.download(JOB_ID, "log", to=tmp_path)


def test_complete_files_are_not_sent_again(api: FakeApi, client: Client, tmp_path: Path) -> None:
    a_file(api, "a", sent(b"abc"))
    fetch(client, tmp_path, "a")
    assert fetch(client, tmp_path, "a") == {"a": "unchanged"}
    (tmp_path / "a").write_bytes(b"edited here")
    assert fetch(client, tmp_path, "a") == {"a": "kept"}
    assert (tmp_path / "a").read_bytes() == b"edited here"
    assert fetch(client, tmp_path, "a", replace=True) == {"a": "downloaded"}
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_an_empty_file_arrives(api: FakeApi, client: Client, tmp_path: Path) -> None:
    a_file(api, "empty", sent(b""))
    fetch(client, tmp_path, "empty")
    assert (tmp_path / "empty").read_bytes() == b""
    assert os.listdir(tmp_path) == ["empty"]


def test_a_folder_arrives_with_all_below_it(api: FakeApi, client: Client, tmp_path: Path) -> None:
    top = [
        entry("run", kind="folder"),
        entry("a%FF%0Ab"),
        entry("circle", kind="folder", link=True),
        entry("pipe", kind="other"),
    ]
    api.on("GET", f"{BASE}out/", page(*top))
    api.on("GET", f"{BASE}out/run/", page(entry("model.pt")))
    api.on("GET", f"{BASE}out/run/model.pt", sent(b"abc"))
    api.on("GET", f"{BASE}out/a%FF%0Ab", sent(b"abc"))
    done = client.jobs.download(JOB_ID, "out", to=tmp_path)
    assert (tmp_path / "out" / "run" / "model.pt").read_bytes() == b"abc"
    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == [b"a\xff\nb", b"run"]
    assert done.problems == {}
    assert done.left_out == {
        "out/circle": "a link to a folder",
        "out/pipe": "no regular file",
    }


@pytest.mark.parametrize("path", ["./out/", "out", "/out"])
def test_a_path_is_below_the_folder_of_the_job(
    api: FakeApi, client: Client, tmp_path: Path, path: str
) -> None:
    api.on("GET", f"{BASE}out/", page(entry("a")))
    api.on("GET", f"{BASE}out/a", sent(b"abc"))
    assert fetch(client, tmp_path, path) == {"out/a": "downloaded"}


@pytest.mark.parametrize("name", ["..", ".", "..%2Fx", "a%2Fb", "a%00"])
def test_a_name_that_leads_out_of_the_folder_is_refused(
    api: FakeApi, client: Client, tmp_path: Path, name: str
) -> None:
    api.on("GET", f"{BASE}out/", page(entry(name)))
    api.on("GET", f"{BASE}out/{name}", sent(b"abc"))
    done = client.jobs.download(JOB_ID, "out", to=tmp_path / "here")
    assert done.files == []
    assert [text for text in done.problems.values() if "is not a path below" in text]
    assert not (tmp_path / "here").exists()


def test_without_paths_the_output_files_arrive(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    names = ("a", "gone")
    files = [
        {"path": name, "size_bytes": 3, "modified_at": "2023-11-14T22:13:20Z"} for name in names
    ]
    api.on("GET", f"/jobs/{JOB_ID}/files", {"folder": "/w", "files": files, "cut": False})
    a_file(api, "a", sent(b"abc"))
    done = client.jobs.download(JOB_ID, to=tmp_path)
    assert [file.path for file in done.files] == ["a"]
    assert list(done.problems) == ["gone"]


def test_a_job_without_output_files_has_nothing_to_download(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}/files", {"folder": "/w", "files": [], "cut": False})
    assert client.jobs.download(JOB_ID, to=tmp_path).raw["files"] == []


def test_a_missing_file_is_an_error(api: FakeApi, client: Client, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        client.jobs.download(JOB_ID, "none", to=tmp_path)


def test_two_downloads_do_not_write_one_file(api: FakeApi, client: Client, tmp_path: Path) -> None:
    a_file(api, "big", sent(b"0123456789", cut_after=4), Refused)
    with pytest.raises(Unreachable):
        client.jobs.download(JOB_ID, "big", to=tmp_path)
    (part,) = tmp_path.iterdir()
    with part.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LocalFileError, match="Another download"):
            client.jobs.download(JOB_ID, "big", to=tmp_path)


def test_a_folder_in_the_place_of_a_file_is_said(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    a_file(api, "a", sent(b"abc"))
    (tmp_path / "a").mkdir()
    with pytest.raises(LocalFileError, match="cannot be written: there is a folder"):
        client.jobs.download(JOB_ID, "a", to=tmp_path)


def test_folders_are_listed(api: FakeApi, client: Client) -> None:
    api.on("GET", f"/files/jobs/{JOB_ID}/checkpoints/", page(entry("step-1")))
    listed = list(client.jobs.list_folder(JOB_ID, folder="checkpoints"))
    assert [(file.path, file.kind, file.size_bytes) for file in listed] == [("step-1", "file", 3)]
