from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from aitne.api import problems
from aitne.api.portal_files import portal_dir, portal_router
from aitne.api.routers.probes_and_metrics import METRICS_TOKEN
from aitne.core.errors import StoreUnavailable
from aitne.core.models.user import Role
from tests.support.jobs import make_job
from tests.support.monitoring import known_metrics
from tests.support.mounts import mounted
from tests.support.openapi import openapi_document
from tests.support.stage import SCRAPER, SECRETS, Stage, open_stage


async def test_ready_means_a_database_and_a_controller(stage: Stage) -> None:
    async with stage.client() as client:
        assert (await client.get("/healthz")).json() == {"ok": True}
        early = await client.get("/readyz")
        assert early.status_code == 503
        assert early.json()["parts"]["database"] == {"ok": True, "detail": None}
        assert not early.json()["parts"]["controller"]["ok"]
        await stage.store.acquire_lease("controller", "test", duration_s=10)
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        stage.clock.move(11)
        assert (await client.get("/readyz")).status_code == 503


async def test_a_database_that_is_away_is_a_503_with_a_hint(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await stage.add_user("ada")
    secret = await stage.token(ada)

    async def away(*_: object) -> None:
        raise StoreUnavailable("The disk is full. Make room.")

    monkeypatch.setattr(stage.store, "ping", away, raising=False)
    monkeypatch.setattr(stage.store, "find_token_user", away, raising=False)
    async with stage.client(secret) as client:
        public = (await client.get("/readyz")).json()["parts"]["database"]
        assert public == {"ok": False, "detail": None}
        ready = await client.get("/readyz", headers=SCRAPER)
        assert ready.json()["parts"]["database"]["detail"] == "The disk is full. Make room."
        answer = await client.get("/api/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_reads_are_answered_while_the_disk_is_full(tmp_path: Path, blank: Path) -> None:
    with mounted(tmp_path / "small", "size=8m") as disk:
        async with open_stage(disk / "data", blank) as stage:
            root = await stage.add_user("root", Role.ADMIN)
            secret = await stage.token(root)
            job = make_job(owner="root")
            await stage.store.create_job(job)
            async with stage.client(secret) as program, stage.browser("root") as browser:
                with suppress(OSError), (disk / "rest").open("wb", buffering=0) as rest:
                    while rest.write(b"\0" * 4_096):
                        pass
                stage.clock.move(3_600)  # when credentials were used last is due to be noted
                for client in (program, browser):
                    refused = await client.post(f"/api/v1/jobs/{job.id}/cancel")
                    assert refused.status_code == 503
                    assert "is full. Free some space" in refused.json()["detail"]
                    jobs = await client.get("/api/v1/jobs")
                    assert [each["id"] for each in jobs.json()["items"]] == [str(job.id)]
                    parts = (await client.get("/api/v1/admin/health")).json()["parts"]
                    assert next(each for each in parts if each["name"] == "disk")["state"] == "down"
                (disk / "rest").unlink()
                assert (await program.post(f"/api/v1/jobs/{job.id}/cancel")).status_code == 202


async def test_the_document_is_served(stage: Stage) -> None:
    async with stage.client() as client:
        served = (await client.get("/api/v1/openapi.json")).json()
    assert served == openapi_document()


async def test_metrics_need_the_metrics_token_or_an_administrator(stage: Stage) -> None:
    root, ada = await stage.add_user("root", Role.ADMIN), await stage.add_user("ada")
    tokens = {None: 401, "wrong": 401, await stage.token(ada): 403, await stage.token(root): 200}
    tokens[SECRETS[METRICS_TOKEN]] = 200
    for token, status in tokens.items():
        async with stage.client(token) as client:
            assert (await client.get("/metrics")).status_code == status, status


async def test_metrics_name_routes_and_never_what_is_unbounded(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        await client.get("/api/v1/jobs/7d3c9a1e-0000-4000-8000-000000000000")
        await client.get("/some/page/of/the/portal")
        client.headers["Authorization"] = "Bearer aitne_pat_wrong"
        await client.get("/api/v1/me")
        answer = await client.get("/metrics", headers=SCRAPER)
    text = answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'route="/api/v1/jobs/{job_id}",status="404"' in text
    assert 'aitne_auth_failures_total{reason="token_not_authenticated"} 1.0' in text
    assert 'aitne_jobs{state="RUNNING"} 0.0' in text
    assert "7d3c9a1e" not in text
    assert "/some/page" not in text
    known = set(known_metrics())
    shown = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert shown <= known


async def test_metrics_have_the_time_of_the_last_backup(stage: Stage) -> None:
    async with stage.client() as client:

        async def shown() -> float:
            text = (await client.get("/metrics", headers=SCRAPER)).text
            found = re.search(r"^aitne_backup_last_success_timestamp_seconds (\S+)$", text, re.M)
            assert found is not None
            return float(found[1])

        assert await shown() == 0
        record = {"path": "/srv/a.tar", "created_at": "2026-03-01T00:00:00Z", "bytes": 7}
        stage.settings.data_dir.joinpath("backup.json").write_text(json.dumps(record))
        assert await shown() == 1_772_323_200


def portal(root: Path | None) -> httpx.AsyncClient:
    app = FastAPI()
    problems.install_handlers(app)
    app.include_router(portal_router(root))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://portal.test")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = tmp_path / "dist"
    (root / "assets").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>the portal")
    (root / "assets" / "index-abc123.js").write_text("run()")
    (root / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret").write_text("secret")
    return root


async def test_the_portal_is_served(built: Path) -> None:
    async with portal(built) as client:
        for path in ("/", "/jobs/17", "/login"):
            page = await client.get(path)
            assert "the portal" in page.text
            assert page.headers["cache-control"] == "no-store"
            csp = page.headers["content-security-policy"]
            assert "script-src 'self';" in csp
            assert "frame-ancestors 'none'" in csp
        script = await client.get("/assets/index-abc123.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert "immutable" in script.headers["cache-control"]
        assert (await client.get("/favicon.svg")).headers["cache-control"] == "no-cache"
        assert (await client.head("/")).status_code == 200


async def test_scripts_and_styles_travel_compressed(built: Path) -> None:
    code = "run(1);\n" * 1_000
    (built / "assets" / "page-abc123.js").write_text(code)
    async with portal(built) as client:
        packed = await client.get("/assets/page-abc123.js", headers={"Accept-Encoding": "gzip, br"})
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(code) / 10
        assert packed.headers["content-type"].startswith("text/javascript")
        assert "immutable" in packed.headers["cache-control"]
        plain = await client.get("/assets/page-abc123.js", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == packed.text == code
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


async def test_an_asset_that_a_new_build_took_away_is_not_found(built: Path) -> None:
    async with portal(built) as client:
        (built / "assets" / "index-abc123.js").unlink()
        for accepted in ("gzip", "identity"):
            answer = await client.get(
                "/assets/index-abc123.js", headers={"Accept-Encoding": accepted}
            )
            assert answer.status_code == 404


@pytest.mark.parametrize(
    "path", ["/assets/old-1.js", "/api/v2/x", "/api", "/agent/v1/x", "/internal/x"]
)
async def test_unknown_path_returns_problem_document(built: Path, path: str) -> None:
    async with portal(built) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/%2e%2e/secret", "/..%2fsecret", "//etc/passwd", "/assets/../../secret"]
)
async def test_files_outside_portal_are_not_served(built: Path, path: str) -> None:
    async with portal(built) as client:
        answer = await client.get(path)
    assert "secret" not in answer.text.replace(path, "")
    assert "root:" not in answer.text


async def test_without_a_portal_a_sentence_says_what_to_do() -> None:
    async with portal(None) as client:
        answer = await client.get("/")
    assert answer.status_code == 503
    assert "make up" in answer.text


def test_the_portal_is_looked_for_beside_the_sources() -> None:
    found = portal_dir()
    assert found is None or (found / "index.html").is_file()


async def test_answers_carry_the_headers_that_browsers_heed(stage: Stage) -> None:
    async with stage.client() as client:
        for path in ("/api/v1/me", "/healthz", "/api/v1/nothing"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "camera=()" in headers["permissions-policy"]
            assert "strict-transport-security" not in headers


async def test_api_leaves_no_tasks_after_stop(tmp_path: Path, blank: Path) -> None:
    # Its looks at its own health begin with it, and are cut off at any of their steps.
    for turns in range(0, 60, 3):
        folder = tmp_path / str(turns)
        folder.mkdir()
        async with open_stage(folder, blank):
            for _ in range(turns):
                await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"after {turns} turns"
