"""Executed notebooks in a browser: what a job wrote gets no origin, no scripts and no requests."""

from __future__ import annotations

import pytest

from tests.support.asgi import open_answer
from tests.support.jobs import make_job
from tests.support.stage import Stage

EVIL = b"<script>fetch('/api/v1/me')</script>"


@pytest.mark.parametrize(
    ("route", "kind"),
    [("notebook.html", "text/html; charset=utf-8"), ("notebook", "application/x-ipynb+json")],
)
async def test_executed_notebook_is_served_in_a_sandbox(
    stage: Stage, route: str, kind: str
) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", spec={"notebook": {"path": '~/Übung "1".ipynb'}})
    await stage.store.create_job(job)
    stage.files.written[job.id, 1] = {"executed.ipynb": EVIL, "executed.html": EVIL}
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get(f"/api/v1/jobs/{job.id}/{route}")
    assert (answer.status_code, answer.content) == (200, EVIL)
    assert answer.headers["content-type"] == kind
    policy = answer.headers["content-security-policy"].split("; ")
    assert policy[:2] == ["sandbox", "default-src 'none'"]
    assert set(policy[2:]) == {
        "img-src data:",
        "style-src 'unsafe-inline'",
        "frame-ancestors 'self'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["cache-control"] == "no-store"
    if route == "notebook":
        assert answer.headers["content-disposition"] == (
            "attachment; filename*=UTF-8''%C3%9Cbung%20%221%22.ipynb"
        )


async def test_other_answers_may_not_be_framed(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/jobs")
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("route", ["notebook.html", "notebook"])
async def test_executed_notebook_is_read_no_faster_than_its_client_reads(
    stage: Stage, route: str
) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", spec={"notebook": {"path": "a.ipynb"}})
    await stage.store.create_job(job)
    large = bytes(12 << 20)
    stage.files.written[job.id, 1] = {"executed.ipynb": large, "executed.html": large}
    headers = {"Authorization": f"Bearer {await stage.token(ada)}"}
    path = f"/api/v1/jobs/{job.id}/{route}"
    async with open_answer(stage.app, path, headers, stalled=True) as answer:
        assert answer.headers["content-length"] == str(len(large))
        assert stage.files.reads == 1, "a client that does not read must not fill the memory"
