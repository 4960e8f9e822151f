"""Upload of the files that travel with a job."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from aitne.client import Client
from aitne.client import tree_upload as uploads
from aitne.client.manifests import Progress
from aitne.core import tree_document
from aitne.core.errors import Conflict, InvalidInput
from tests.support.fake_api import ConnectionLost, FakeApi, job, problem

LIMITS = {"max_files": 10, "max_bytes": 100, "quota_bytes": 1_000}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def path_of(folder: Path, **contents: bytes) -> str:
    """Write the files; the path of their tree."""
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    files = tuple(tree_document.TreeFile(n, len(c), sha(c), False) for n, c in contents.items())
    document = tree_document.serialize_tree(tree_document.JobTree(files, (), None, None))
    return f"/trees/{tree_document.compute_tree_digest(document)}"


def status(path: str, *missing: bytes) -> dict[str, Any]:
    digest = path.removeprefix("/trees/")
    rest = {"files": 2, "size_bytes": 6, "commit": None, "dirty": None}
    return {"digest": digest, **rest, "missing": [sha(content) for content in missing]}


def test_job_is_submitted_with_the_files_of_a_folder(
    client: Client, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing files are uploaded in several requests; one that breaks off is repeated."""
    monkeypatch.setattr(uploads, "BATCH_BYTES", 6)
    path = path_of(tmp_path, a=b"one", b=b"two", c=b"three", d=b"known")
    answer = status(path, b"one", b"two", b"three")
    api.on("GET", "/trees:limits", LIMITS)
    api.on("PUT", path, answer, status(path))
    api.on("PUT", f"{path}/blobs", b"", ConnectionLost, b"")
    api.on("POST", "/jobs", job())
    client.jobs.create({"commands": ["true"]}, sync=tmp_path)
    sent = [request for request in api.requests if request.path.endswith("/blobs")]
    assert len(sent) == 3
    assert api.requests[-1].json == {"commands": ["true"], "tree": path.removeprefix("/trees/")}


def test_progress_and_what_was_uploaded_are_told(
    client: Client, api: FakeApi, tmp_path: Path
) -> None:
    path = path_of(tmp_path, a=b"one", b=b"two")
    api.on("GET", "/trees:limits", LIMITS)
    api.on("PUT", path, status(path, b"one"), status(path))
    api.on("PUT", f"{path}/blobs", b"")
    heard: list[tuple[str, int, int]] = []

    def hear(now: Progress) -> None:
        heard.append((now.stage, now.done_bytes, now.total_bytes))

    tree = client.trees.upload(tmp_path, heard=hear)
    assert (tree.files, tree.uploaded_files, tree.uploaded_bytes) == (2, 1, 3)
    assert heard == [("send", 3, 3)]


@pytest.mark.parametrize("end", ["refused", "disturbed"])
def test_job_without_a_whole_tree_is_not_submitted(
    client: Client, api: FakeApi, tmp_path: Path, end: str
) -> None:
    path = path_of(tmp_path, a=b"one")
    api.on("GET", "/trees:limits", LIMITS)
    api.on("PUT", path, status(path, b"one"), status(path, b"one"))
    refused = problem(422, "invalid_tree", "A content has another sha256.")
    api.on("PUT", f"{path}/blobs", refused if end == "refused" else b"")
    with pytest.raises(InvalidInput if end == "refused" else Conflict):
        client.jobs.create({"commands": ["true"]}, sync=tmp_path)
    assert "/jobs" not in {request.path for request in api.requests}
