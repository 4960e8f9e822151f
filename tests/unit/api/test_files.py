"""Files of jobs over the API: content, parts, lists, and headers that keep a browser from running
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job
from aitne.services import user_files as file_service
from tests.support.jobs import make_array, make_job
from tests.support.stage import Stage

PAGE = b"<script>alert(document.cookie)</script>"


@pytest.fixture
async def job(stage: Stage, tmp_path: Path) -> Job:
    await stage.add_user("ada")
    workdir = tmp_path / "work"
    (workdir / "out").mkdir(parents=True)
    (workdir / "out" / "model.pt").write_bytes(b"0123456789")
    (workdir / "page.html").write_bytes(PAGE)
    job = make_job(owner="ada", project="ada", spec={"workdir": str(workdir)})
    await stage.store.create_job(job)
    return job


async def client_of(stage: Stage, name: str = "ada", *scopes: Scope) -> httpx.AsyncClient:
    return stage.client(await stage.token(stage.actor(name), *(scopes or (Scope.READ,))))


async def get(stage: Stage, path: str, **headers: str) -> httpx.Response:
    async with await client_of(stage) as client:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.get(f"/api/v1/files/{path}", headers=sent)


async def test_a_file_is_sent_so_that_no_browser_shows_it(stage: Stage, job: Job) -> None:
    answer = await get(stage, f"jobs/{job.id}/workdir/page.html")
    assert (answer.status_code, answer.content) == (200, PAGE)
    headers = answer.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith('attachment; filename="page.html"')
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert headers["cache-control"] == "no-store"
    assert headers["content-length"] == str(len(PAGE))


@pytest.mark.parametrize(
    ("name", "encoded", "saved"),
    [
        ("a\nb.txt", "a%0Ab.txt", "a_b.txt"),
        ('quo"te\\.txt', "quo%22te%5C.txt", "quo_te_.txt"),
        ("\u202etxt.exe", "%E2%80%AEtxt.exe", "_txt.exe"),
        ("ends\n", "ends%0A", "ends_"),
        ("\udcff\udcfe.bin", "%FF%FE.bin", "__.bin"),
    ],
)
async def test_a_strange_name_is_found_and_its_header_is_safe(
    stage: Stage, job: Job, name: str, encoded: str, saved: str
) -> None:
    Path(job.spec.workdir or "", name).write_bytes(b"x")
    answer = await get(stage, f"jobs/{job.id}/workdir/{encoded}")
    assert (answer.status_code, answer.content) == (200, b"x"), answer.text
    assert f'filename="{saved}"' in answer.headers["content-disposition"]
    listed = (await get(stage, f"jobs/{job.id}/workdir/")).json()["items"]
    assert encoded in [item["path"] for item in listed]


@pytest.mark.parametrize(
    ("asked", "status", "content", "sent"),
    [
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=2-3", 206, b"23", "bytes 2-3/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=5-2", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
    ],
)
async def test_a_range_has_the_requested_part(
    stage: Stage, job: Job, asked: str, status: int, content: bytes | None, sent: str | None
) -> None:
    answer = await get(stage, f"jobs/{job.id}/workdir/out/model.pt", range=asked)
    assert (answer.status_code, answer.headers.get("content-range")) == (status, sent)
    if content is not None:
        assert answer.content == content
    else:
        assert answer.json()["code"] == "range_not_satisfiable"


async def test_a_download_resumes_only_with_the_same_version(stage: Stage, job: Job) -> None:
    path = f"jobs/{job.id}/workdir/out/model.pt"
    etag = (await get(stage, path)).headers["etag"]
    rest = await get(stage, path, range="bytes=4-", if_range=etag)
    assert (rest.status_code, rest.content, rest.headers["etag"]) == (206, b"456789", etag)
    Path(job.spec.workdir or "", "out", "model.pt").write_bytes(b"another")
    whole = await get(stage, path, range="bytes=4-", if_range=etag)
    assert (whole.status_code, whole.content) == (200, b"another")


async def test_a_file_that_changes_while_it_is_sent_ends_the_answer(
    stage: Stage, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_service, "PART_BYTES", 4)
    opened = await stage.platform.files.open(
        stage.actor("ada"), "jobs", f"{job.id}/workdir/out/model.pt".encode()
    )
    parts = opened.parts(0, 10)
    assert await anext(parts) == b"0123"
    Path(job.spec.workdir or "", "out", "model.pt").write_bytes(b"abcdefghij")
    with pytest.raises(Exception, match="was changed while it was read"):
        await anext(parts)


async def test_head_has_the_headers_alone(stage: Stage, job: Job) -> None:
    async with await client_of(stage) as client:
        answer = await client.head(f"/api/v1/files/jobs/{job.id}/workdir/out/model.pt")
        missing = await client.head(f"/api/v1/files/jobs/{job.id}/workdir/none")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (
        200,
        b"",
        "10",
    )
    assert answer.headers["etag"].strip('"')
    assert answer.headers["accept-ranges"] == "bytes"
    assert missing.status_code == 404


async def test_folders_are_listed_page_by_page(stage: Stage, job: Job) -> None:
    folder = f"jobs/{job.id}/workdir/"
    first = (await get(stage, f"{folder}?limit=1")).json()
    assert [item["path"] for item in first["items"]] == ["out"]
    second = (await get(stage, f"{folder}?limit=1&cursor={first['next_cursor']}")).json()
    assert [item["path"] for item in second["items"]] == ["page.html"]
    assert second["next_cursor"] is None
    model = (await get(stage, f"{folder}out/")).json()["items"][0]
    assert (model["kind"], model["size_bytes"], model["link"]) == ("file", 10, False)
    sent = await get(stage, f"{folder}out/model.pt")
    assert sent.headers["etag"] == f'"{model["etag"]}"'
    refused = await get(stage, f"{folder}?cursor=../x")
    assert refused.status_code == 422


async def test_a_job_has_its_folder_its_checkpoints_and_its_metrics(stage: Stage, job: Job) -> None:
    place = Path(stage.settings.jobs_dir, str(job.id))
    for name in ("checkpoints", "metrics"):
        (place / name).mkdir(parents=True)
        (place / name / "a").write_bytes(name.encode())
    listed = (await get(stage, f"jobs/{job.id}/")).json()["items"]
    assert [item["path"] for item in listed] == ["checkpoints", "metrics", "workdir"]
    for name in ("checkpoints", "metrics"):
        assert (await get(stage, f"jobs/{job.id}/{name}/a")).content == name.encode()
    # The script, the log and the secrets of the job are not among its files.
    assert (await get(stage, f"jobs/{job.id}/1/token")).status_code == 404


async def test_a_task_has_checkpoints_of_its_own(stage: Stage) -> None:
    await stage.add_user("ada")
    array, tasks = make_array("0-1", owner="ada", project="ada")
    await stage.store.create_job(array, tasks)
    task = (await stage.store.list_array_tasks(array.id))[1]
    folder = Path(stage.settings.jobs_dir, str(array.id), "checkpoints", "1")
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    assert (await get(stage, f"jobs/{task.id}/checkpoints/a")).content == b"1"
    assert (await get(stage, f"jobs/{array.id}/checkpoints/1/a")).content == b"1"


async def test_files_that_came_with_the_job_are_reached_too(stage: Stage) -> None:
    await stage.add_user("ada")
    repo = {"url": "https://git.example.org/x.git", "ref": "main", "subdir": "code"}
    job = make_job(owner="ada", project="ada", spec={"repo": repo})
    await stage.store.create_job(job)
    folder = Path(stage.settings.jobs_dir, str(job.id), "tree", "code")
    folder.mkdir(parents=True)
    (folder / "train.py").write_bytes(b"import torch")
    assert (await get(stage, f"jobs/{job.id}/workdir/train.py")).content == b"import torch"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("home/x", 404, "Areas: jobs"),
        ("jobs/none/workdir/x", 404, "does not exist"),
        ("jobs/{job}/elsewhere/x", 404, "Folders: checkpoints, metrics, workdir"),
        ("jobs/{job}/workdir/none", 404, "has not written it, or it was removed"),
        ("jobs/{job}/workdir/out", 409, "with a final slash"),
        ("jobs/{job}/workdir/page.html/", 409, "not a folder"),
        ("jobs/{job}/workdir/%2e%2e/x", 422, "without `.`, `..`"),
        ("jobs/{job}/workdir/a%2F..%2Fb", 422, "without `.`, `..`"),
    ],
)
async def test_missing_files_are_explained(
    stage: Stage, job: Job, path: str, status: int, said: str
) -> None:
    answer = await get(stage, path.replace("{job}", str(job.id)))
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


async def test_hidden_files_need_a_token_that_could_submit_a_job(stage: Stage, job: Job) -> None:
    hidden = Path(job.spec.workdir or "", ".ssh")
    hidden.mkdir()
    (hidden / "id_rsa").write_bytes(b"key")
    path = f"/api/v1/files/jobs/{job.id}/workdir/.ssh/id_rsa"
    answers: list[Any] = []
    for scopes in ((Scope.READ,), (Scope.READ, Scope.WRITE)):
        async with await client_of(stage, "ada", *scopes) as client:
            answers.append(await client.get(path))
    assert [answer.status_code for answer in answers] == [403, 200]
    assert "scope write" in answers[0].json()["detail"]
