"""Headers, size limits and rate limits of all answers."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from aitne.api import portal_files
from aitne.api.dependencies import SAFE_METHODS
from aitne.api.edge_middleware import (
    MAX_ANONYMOUS_BODY_BYTES,
    MAX_BODY_BYTES,
    MAX_QUERY_BYTES,
    EdgeMiddleware,
)
from aitne.api.rate_limits import TokenBuckets
from aitne.api.routes import bare_app
from aitne.core.errors import RateLimited
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_job, store_job_token
from tests.support.stage import PASSWORD, Stage, open_stage

ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/me", 200),
        ("/api/v1/nothing", 404),
        ("/api/v1/users", 403),
        ("/healthz", 200),
        ("/api/v1/auth/sources", 200),
    ],
)
async def test_every_answer_of_the_api(stage: Stage, path: str, status: int) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        answer = await client.get(path)
    assert answer.status_code == status
    assert answer.headers.items() >= ALWAYS.items()
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; frame-ancestors 'none'"
    )
    for feature in ("camera", "geolocation", "microphone"):
        assert f"{feature}=()" in answer.headers["permissions-policy"]


@pytest.mark.parametrize(("https", "said"), [(True, "max-age=31536000"), (False, None)])
async def test_browsers_keep_to_https_where_there_is_https(
    stage: Stage, https: bool, said: str | None
) -> None:
    app = EdgeMiddleware(FastAPI(), metrics=stage.app.state.metrics, https=https)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://portal.test"
    ) as client:
        answer = await client.get("/")
    assert answer.headers.get("strict-transport-security") == said


async def test_each_page_of_the_portal_has_a_nonce_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "app.js").write_text("1")
    nonce = "NONCE-OF-THE-PAGE"
    (tmp_path / "index.html").write_text(
        f'<meta property="csp-nonce" nonce="{nonce}"><style nonce="{nonce}">a</style>'
    )
    app = FastAPI()
    app.include_router(portal_files.portal_router(tmp_path))
    seen = set()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://portal.test"
    ) as client:
        for path in ("/", "/jobs", "/index.html", "/login"):
            page = await client.get(path)
            policy = page.headers["content-security-policy"]
            found = re.search(r"style-src 'self' 'nonce-([\w-]+)'", policy)
            assert found is not None
            assert page.text.count(f'nonce="{found[1]}"') == 2
            assert nonce not in page.text
            assert page.headers["cache-control"] == "no-store"
            assert "unsafe" not in policy
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert "etag" not in page.headers
            seen.add(found[1])
        script = await client.get("/assets/app.js")
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert len(seen) == 4


async def test_the_policy_and_the_build_mean_the_same_nonce() -> None:
    root = Path(portal_files.__file__).parents[3]
    assert f'cspNonce: "{portal_files._NONCE}"' in (root / "frontend/vite.config.ts").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", (root / "frontend/index.html").read_text())


async def test_a_body_that_is_too_large_is_not_read(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        for path in ("/api/v1/auth/login", "/api/v1/jobs", "/api/v1/tokens"):
            answer = await client.post(path, content=b" " * (MAX_BODY_BYTES + 1))
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_without_a_login_only_small_bodies_are_read(stage: Stage) -> None:
    paths = {
        (route.path, method)
        for route in iter_route_contexts(bare_app().routes)
        for method in route.methods or ()
        if method not in SAFE_METHODS and "{" not in route.path
    }
    assert len(paths) > 30
    body = b'{"x": "' + b"a" * MAX_ANONYMOUS_BODY_BYTES + b'"}'
    headers = {"Content-Type": "application/json", "Authorization": "Bearer wrong"}
    async with stage.client(None) as client:
        for path, method in sorted(paths):
            answer = await client.request(method, path, content=body, headers=headers)
            assert answer.status_code in (204, 401, 403, 413), (method, path, answer.text)
        answer = await client.post("/api/v1/auth/login", content=body, headers=headers)
    assert answer.json()["code"] == "too_large"
    assert str(MAX_ANONYMOUS_BODY_BYTES) in answer.json()["detail"]


async def test_the_problems_of_one_request_are_bounded(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    unknown = {f"command{number}": 1 for number in range(1_000)}
    async with stage.client(await stage.token(ada)) as client:
        body = (await client.post("/api/v1/jobs", json=unknown)).json()
        scopes = await client.post("/api/v1/tokens", json={"name": "x", "scopes": ["x"] * 1_000})
        long = await client.post("/api/v1/jobs", json={"x" * 10_000: 1})
    assert len(body["problems"]) == 50
    assert body["problems"][0]["message"] == "is not a known field; did you mean commands?"
    assert body["detail"].endswith("; and 995 more")
    assert "did you mean" not in body["problems"][-1]["message"]
    assert len(scopes.json()["problems"]) <= 50
    assert scopes.json()["detail"].endswith("more")
    assert long.json()["problems"][0]["message"] == "is not a known field"


async def test_a_query_that_is_too_long_is_not_read(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/jobs?" + "x=1&" * (MAX_QUERY_BYTES // 4 + 1))
        assert (answer.status_code, answer.json()["code"]) == (414, "too_long")
        fields = "&".join(f"x{number}=1" for number in range(500))
        problems = (await client.get(f"/api/v1/jobs?{fields}")).json()["problems"]
    assert len(problems) == 50


async def test_changes_of_one_user_are_limited_and_nobody_elses(
    tmp_path: Path, blank: Path
) -> None:
    rates = {"changes_per_minute": 1, "changes_burst": 3}
    async with open_stage(tmp_path, blank, rates=rates) as stage:
        for name in ("ada", "bob"):
            await stage.add_user(name)
        async with stage.browser("ada") as ada, stage.browser("bob") as bob:
            body = {"display_name": "x"}
            answers = [await ada.patch("/api/v1/users/ada", json=body) for _ in range(5)]
            assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
            assert answers[-1].json()["code"] == "rate_limited"
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
            assert (await ada.get("/api/v1/me")).status_code == 200
            assert (await bob.patch("/api/v1/users/bob", json=body)).status_code == 200


async def test_requests_of_jobs_are_limited_by_job_and_guesses_by_address(
    tmp_path: Path, blank: Path
) -> None:
    rates = {"changes_per_minute": 1, "changes_burst": 3}
    body = {"protocol": 1, "attempt": 1, "phase": "running", "node": "n1"}
    async with open_stage(tmp_path, blank, rates=rates) as stage:
        paths = []
        epoch = await stage.add_node()
        for token in ("first", "second", "third", "fourth", "fifth"):
            job = make_job(owner="ada", project="ada")
            await stage.store.create_job(job)
            await store_job_token(stage.store, job.id, hash_secret(token), epoch=epoch)
            paths.append(f"/agent/v1/jobs/{job.id}")

        async def statuses(tokens: list[str], path: str, **report: object) -> list[int]:
            found = []
            for token in tokens:
                async with stage.client(token) as client:
                    request = client.post(path, json=report) if report else client.get(path)
                    found.append((await request).status_code)
            return found

        assert await statuses(["first"], f"{paths[0]}/report", **body) == [200]
        started = ["second", "third", "fourth"]
        found = [
            await statuses([token], f"{path}/report", **body)
            for token, path in zip(started, paths[1:4], strict=True)
        ]
        assert found == [[200]] * 3, "the first requests of jobs on one node limit one another"
        guesses = [f"guess {number}" for number in range(5)]
        assert await statuses(guesses, f"{paths[0]}/status") == [401, 401, 401, 429, 429]
        known = ["first"] * 4
        assert await statuses(known, f"{paths[0]}/status") == [200, 200, 200, 429]
        assert await statuses(known, f"{paths[0]}/report", **body) == [200, 200, 200, 429]
        assert await statuses(["fifth"], f"{paths[4]}/status") == [429], "it was never accepted"


async def test_logins_from_one_address_are_limited(tmp_path: Path, blank: Path) -> None:
    rates = {"logins_per_minute": 60, "logins_burst": 3}
    async with open_stage(tmp_path, blank, rates=rates) as stage:
        await stage.add_user("ada")
        body = {"username": "ada", "password": PASSWORD}
        async with stage.client() as client:
            found = [
                (await client.post("/api/v1/auth/login", json=body)).status_code,
                (
                    await client.post("/api/v1/auth/totp", json={"ticket": "x", "code": "1"})
                ).status_code,
                (await client.post("/api/v1/auth/login-link", json={"token": "x"})).status_code,
                (await client.post("/api/v1/auth/login", json=body)).status_code,
                (
                    await client.post(
                        "/api/v1/auth/reset", json={"token": "x", "password": PASSWORD}
                    )
                ).status_code,
            ]
    assert found == [200, 401, 401, 429, 429]


def test_a_bucket_fills_up_again_and_forgets_who_was_here_long_ago() -> None:
    now = 0.0
    buckets = TokenBuckets(60, 2, lambda: now)
    buckets.take_token("ada")
    buckets.take_token("ada")
    with pytest.raises(RateLimited) as caught:
        buckets.take_token("ada")
    assert caught.value.retry_after_s == 1
    now = 0.5
    with pytest.raises(RateLimited) as caught:
        buckets.take_token("ada")
    assert caught.value.retry_after_s == 0.5
    now = 1.0
    buckets.take_token("ada")
    now = 3_600.0
    for _ in range(2):
        buckets.take_token("ada")
    with pytest.raises(RateLimited):
        buckets.take_token("ada")
    for n in range(20_001):
        buckets.take_token(str(n))
    buckets.take_token("ada")
