"""Trees of users: what is accepted, kept, and given to jobs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from aitne.api import uploads
from aitne.core import tree_document
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role
from aitne.core.storage.storage_and_container_settings import TreeSettings
from aitne.core.tree_document import JobTree, TreeFile, TreeLink
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import store_job_token
from tests.support.stage import Stage, open_stage

MAX_BYTES, QUOTA = 4_000, 21_000
SECRET = b"print('of ada')\n"


@pytest.fixture
async def stage(tmp_path: Path, blank: Path) -> AsyncIterator[Stage]:
    limits = TreeSettings(max_bytes=MAX_BYTES, quota_bytes=QUOTA, keep_days=10)
    async with open_stage(tmp_path, blank, trees=limits) as stage:
        yield stage


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tree(*links: TreeLink, **contents: bytes) -> tuple[str, bytes]:
    """Return the digest and the document of a tree; files whose name ends in `_sh` are executable."""
    files = tuple(
        TreeFile(name, len(content), sha(content), name.endswith("_sh"))
        for name, content in contents.items()
    )
    document = tree_document.serialize_tree(JobTree(files, links, "c" * 40, True))
    return tree_document.compute_tree_digest(document), document


def blob(content: bytes, *, name: str | None = None, size: int | None = None) -> bytes:
    size = len(content) if size is None else size
    return f"{name or sha(content)} {size}\n".encode() + content


async def put(client: httpx.AsyncClient, digest: str, content: bytes, more: str = "") -> Any:
    return await client.put(f"/api/v1/trees/{digest}{more}", content=content)


async def upload(stage: Stage, owner: Actor, **contents: bytes) -> str:
    digest, document = tree(**contents)
    async with stage.client(await stage.token(owner)) as client:
        answer = await put(client, digest, document)
        assert answer.status_code == 200, answer.text
        missing = answer.json()["missing"]
        body = b"".join(blob(content) for content in contents.values() if sha(content) in missing)
        assert (await put(client, digest, body, "/blobs")).status_code == 204
        assert (await put(client, digest, document)).json()["missing"] == []
    return digest


async def submit(stage: Stage, owner: Actor, **fields: Any) -> Any:
    async with stage.client(await stage.token(owner)) as client:
        return await client.post("/api/v1/jobs", json={"commands": ["true"], **fields})


async def run(stage: Stage, job: UUID) -> str:
    """Start the job; return its token."""
    epoch = await stage.add_node()
    await store_job_token(stage.store, job, hash_secret(f"token {job}"), epoch=epoch)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING):
        await stage.store.transition_job(job, state)
    return f"token {job}"


async def test_job_gets_its_tree_with_its_own_token(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    contents = {"a.py": SECRET, "b.py": SECRET, "c_sh": b"#!/bin/sh\n", "empty": b""}
    digest = await upload(stage, ada, **contents)
    answer = await submit(stage, ada, tree=digest)
    assert answer.status_code == 201, answer.text
    assert answer.json()["tree"] == {
        "digest": digest,
        "files": 4,
        "size_bytes": 2 * len(SECRET) + 10,
        "commit": "c" * 40,
        "dirty": True,
    }
    job = UUID(answer.json()["id"])
    token = await run(stage, job)
    path = f"/agent/v1/jobs/{job}/tree"
    async with stage.client(token) as client:
        found = await client.get(path)
    _, document = tree(**contents)
    assert found.content == document + b"\n" + SECRET + SECRET + b"#!/bin/sh\n"
    assert int(found.headers["content-length"]) == len(found.content)
    for other in ("another", await stage.token(ada)):
        async with stage.client(other) as client:
            assert (await client.get(path)).status_code == 401
    async with stage.client(await stage.token(ada)) as client:
        file = (await client.get(f"/api/v1/jobs/{job}/file")).json()["file"]
        assert file["tree"] == digest
        assert "workdir" not in file
        plain = (await client.post("/api/v1/jobs", json={"commands": ["true"]})).json()["id"]
    async with stage.client(await run(stage, UUID(plain))) as client:
        assert (await client.get(f"/agent/v1/jobs/{plain}/tree")).status_code == 404
    await stage.store.transition_job(job, JobState.COMPLETED)
    async with stage.client(token) as client:
        assert (await client.get(path)).status_code == 401


async def test_only_contents_that_are_missing_are_requested(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await upload(stage, ada, a=b"one", b=b"two")
    digest, document = tree(a=b"one", b=b"changed")
    async with stage.client(await stage.token(ada)) as client:
        assert (await put(client, digest, document)).json()["missing"] == [sha(b"changed")]
        # An upload that was interrupted goes on where it stopped, and until then is no tree.
        refused = await submit(stage, ada, tree=digest)
        assert refused.status_code == 422
        assert "you have no such tree" in refused.json()["problems"][0]["message"]


async def test_hash_of_another_user_gives_nothing(stage: Stage) -> None:
    """Neither the content, nor whether it exists, nor a job in the tree."""
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve", project="ada")
    root = await stage.add_user("root", Role.ADMIN)
    digest = await upload(stage, ada, a=SECRET)
    _, document = tree(a=SECRET)
    for actor in (eve, root):
        named = await submit(stage, actor, tree=digest)
        unknown = await submit(stage, actor, tree="0" * 64)
        assert (named.status_code, unknown.status_code) == (422, 422)
        assert named.text.replace(digest, "0" * 64) == unknown.text
        async with stage.client(await stage.token(actor)) as client:
            # Who knows the list of the files alone is asked for their contents.
            assert (await put(client, digest, document)).json()["missing"] == [sha(SECRET)]
            assert (await put(client, "1" * 64, b"", "/blobs")).status_code == 404
        assert (await submit(stage, actor, tree=digest)).status_code == 422
    # Eve sees ada's job and may not run it again.
    job = (await submit(stage, ada, tree=digest)).json()["id"]
    async with stage.client(await stage.token(eve)) as client:
        again = await client.post(f"/api/v1/jobs/{job}/resubmit")
    assert again.status_code in (403, 404)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (blob(b"two", name=sha(b"one")), "instead of"),
        (blob(b"one", size=2), "no file with sha256"),
        (blob(b"on", name=sha(b"one"), size=3), "cut off"),
        (blob(b"other"), "no file with sha256"),
        (blob(b"one") * 20, "More was uploaded"),
        (b"x" * 90, "not a sequence"),
        (b"%s 3" % sha(b"one").encode(), "not a sequence"),
        (b"%s 1%s\none" % (sha(b"one").encode(), b"0" * 15), "no file with sha256"),
    ],
)
async def test_wrong_content_is_refused(stage: Stage, body: bytes, reason: str) -> None:
    ada = await stage.add_user("ada")
    digest, document = tree(a=b"one")
    async with stage.client(await stage.token(ada)) as client:
        await put(client, digest, document)
        answer = await put(client, digest, body, "/blobs")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_tree"), answer.text
        assert reason in answer.json()["detail"]
        assert (await put(client, digest, document)).json()["missing"] in ([sha(b"one")], [])
    (place,) = stage.settings.trees_dir.iterdir()
    assert not list(place.glob("incoming-*"))


async def test_sizes_are_bounded_before_anything_is_stored(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        limits = (await client.get("/api/v1/trees:limits")).json()
        assert (limits["max_bytes"], limits["quota_bytes"]) == (MAX_BYTES, QUOTA)
        big = JobTree((TreeFile("a", 1 << 62, "a" * 64, False),), (), None, None)
        document = tree_document.serialize_tree(big)
        answer = await put(client, tree_document.compute_tree_digest(document), document)
        assert answer.status_code == 422
        assert "at most 3.9 KiB are permitted" in answer.json()["detail"]
        answer = await put(client, "0" * 64, b" " * (tree_document.MOST_BYTES + 1))
        assert "more than 4194304 bytes" in answer.json()["detail"]
        answer = await put(client, "0" * 64, document)
        assert answer.status_code == 422
    assert not [path for path in stage.settings.trees_dir.rglob("*") if path.is_file()]


async def test_quota_makes_room_from_trees_that_no_job_uses(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    kept = await upload(stage, ada, a=b"a" * MAX_BYTES)
    job = UUID((await submit(stage, ada, tree=kept)).json()["id"])
    stage.clock.move(7_200)
    unused = await upload(stage, ada, b=b"b" * MAX_BYTES)
    digest, document = tree(c=b"c" * MAX_BYTES)
    async with stage.client(await stage.token(ada)) as client:
        answer = await put(client, digest, document)
        assert (answer.status_code, answer.json()["code"]) == (409, "trees_full")
        assert "You have 2 trees of 16 KiB" in answer.json()["detail"]
    stage.clock.move(7_200)
    await upload(stage, ada, c=b"c" * MAX_BYTES)
    assert (await submit(stage, ada, tree=unused)).status_code == 422
    # A job that has not ended keeps its tree, also after the time for which unused ones are kept.
    stage.clock.move(11 * 86_400)
    await upload(stage, ada, d=b"d")
    assert (await stage.platform.trees.find("ada", kept))[0] is not None
    await run(stage, job)
    await stage.store.transition_job(job, JobState.COMPLETED)
    stage.clock.move(11 * 86_400)
    await upload(stage, ada, e=b"e")
    blobs = {path.name for path in (stage.settings.trees_dir / "ada" / "blobs").iterdir()}
    assert blobs == {sha(b"e")}
    async with stage.client(await stage.token(ada)) as client:
        plan = (await client.get(f"/api/v1/jobs/{job}/resubmit")).json()
        assert not plan["possible"]
        assert "it has expired" in plan["problems"][0]["message"]
        assert (await client.post(f"/api/v1/jobs/{job}/resubmit")).status_code == 422


async def test_number_of_trees_is_limited(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aitne.adapters.tree_folder.MOST_TREES", 1)
    ada = await stage.add_user("ada")
    await upload(stage, ada)
    digest, document = tree(TreeLink("link", "target"))
    async with stage.client(await stage.token(ada)) as client:
        answer = await put(client, digest, document)
        assert (answer.status_code, answer.json()["code"]) == (409, "trees_full")
        assert "at most 1 of" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"workdir": "/tmp"}, "workdir"),
        ({"repo": {"url": "https://example.org/a", "ref": "main"}}, "repo"),
        ({"type": "session", "commands": []}, "tree"),
    ],
)
async def test_tree_excludes_other_folders(
    stage: Stage, fields: dict[str, Any], field: str
) -> None:
    ada = await stage.add_user("ada")
    digest = await upload(stage, ada, a=b"a")
    answer = await submit(stage, ada, tree=digest, **fields)
    assert answer.status_code == 422
    assert field in {problem["field"] for problem in answer.json()["problems"]}


async def test_token_to_read_uploads_nothing(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    digest, document = tree(a=b"a")
    async with stage.client(await stage.token(ada, Scope.READ)) as client:
        for more in ("", "/blobs"):
            assert (await put(client, digest, document, more)).status_code == 403


async def test_user_sends_two_uploads_at_once(stage: Stage) -> None:
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    digest, document = tree(a=SECRET)
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        begun.release()
        await go_on.wait()
        yield document

    async with stage.client(await stage.token(ada)) as client:
        paths = (f"/api/v1/trees/{digest}", f"/api/v1/manifests/{digest}")
        slow = [asyncio.create_task(client.put(path, content=slowly())) for path in paths]
        for _ in slow:
            await begun.acquire()
        refused = await put(client, digest, document)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        async with stage.client(await stage.token(bob)) as other:
            assert (await put(other, digest, document)).status_code == 200
        go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*slow)] == [200, 422]
        assert (await put(client, digest, document)).status_code == 200


async def test_upload_has_a_deadline(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "WITHIN_S", 0.0)
    ada = await stage.add_user("ada")
    digest, _ = tree(a=SECRET)

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with stage.client(await stage.token(ada)) as client:
        late = await client.put(f"/api/v1/trees/{digest}", content=never())
    assert late.status_code == 408
    assert not [path for path in stage.settings.trees_dir.rglob("*") if path.is_file()]
