"""After a logout running and later sessions refuse the old browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from aitne.session_server.launcher import LOGIN_CACHED_S
from tests.integration.hub.conftest import RunningHub
from tests.integration.hub.standin import StandInJob
from tests.integration.hub.test_hub import start
from tests.support import realtime
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

WELL_BEFORE_CACHED_S = LOGIN_CACHED_S / 3


@pytest.fixture
def other() -> Iterator[httpx.Client]:
    """Another browser of the same user."""
    with httpx.Client(follow_redirects=True, trust_env=False, timeout=30) as client:
        yield client


def end_logins(running: RunningHub, user: str, *keep: str) -> int:
    query = "&".join(f"keep={sign_in}" for sign_in in keep)
    return running.api(f"/platform/users/{user}/logins?{query}", "DELETE").status_code


@asynccontextmanager
async def terminal(
    running: RunningHub, browser: httpx.Client, job: StandInJob
) -> AsyncIterator[ClientConnection]:
    """Open a new terminal during the block; yield its WebSocket."""
    base = running.base(job)
    path = f"/user/{job.owner}/{job.server}/"
    xsrf = browser.cookies.get("_xsrf", path=path) or ""
    made = browser.post(f"{base}/api/terminals", headers={"X-XSRFToken": xsrf})
    made.raise_for_status()
    name = f"jupyterhub-user-{job.owner}-{job.server}"
    async with connect(
        f"{base.replace('http', 'ws', 1)}/terminals/websocket/{made.json()['name']}",
        additional_headers={"Cookie": f"{name}={browser.cookies[name]}"},
        origin=running.url,
    ) as socket:
        assert json.loads(await socket.recv())[0] == "setup"
        yield socket


async def closed(socket: ClientConnection) -> int | None:
    """Wait until the server closes the connection; return the close code."""
    with suppress(ConnectionClosed):
        while True:
            await socket.recv()
    return socket.close_code


async def test_end_of_all_logins_reaches_sessions_that_run_and_later_ones(
    running: RunningHub, browser: httpx.Client
) -> None:
    job, later = running.job("ada"), running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    async with terminal(running, browser, job) as socket:
        running.portal.logged_in = None
        assert end_logins(running, "ada") == 204
        assert await closed(socket) == 4401
    eventually(
        "it is refused", lambda: running.status(browser, job) == 403, within_s=WELL_BEFORE_CACHED_S
    )
    await start(running, later)
    for each in (job, later):
        assert "login-page" in browser.get(f"{running.base(each)}/lab").text
    running.portal.logged_in = "ada"
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    assert running.api("/users/ada").json()["servers"][job.server]["ready"]


async def test_logout_ends_the_logins_of_one_browser(
    running: RunningHub, browser: httpx.Client, other: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    for sign_in, each in (("one", browser), ("two", other)):
        running.portal.sign_in = sign_in
        assert each.get(f"{running.base(job)}/lab").status_code == 200
    thief = httpx.Client(trust_env=False, cookies=_copied(browser))
    assert running.status(thief, job) == 200
    async with (
        terminal(running, browser, job) as ended,
        terminal(running, other, job) as kept,
    ):
        browser.get(f"{running.url}/hub/logout")
        assert await closed(ended) == 4401
        eventually(
            "it is refused",
            lambda: running.status(thief, job) == 403,
            within_s=WELL_BEFORE_CACHED_S,
        )
        assert running.status(other, job) == 200
        await kept.send(json.dumps(["stdin", "echo kept\n"]))
        assert await kept.recv()
    thief.close()


async def test_end_of_one_login_leaves_those_of_other_browsers(
    running: RunningHub, browser: httpx.Client, other: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    running.portal.sign_in = "one"
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    running.portal.sign_in = "two"
    # A browser cannot take part in a login of another one by a session ID of its choice.
    other.cookies.set("jupyterhub-session-id", "one", path="/hub/")
    assert other.get(f"{running.base(job)}/lab").status_code == 200
    async with (
        terminal(running, browser, job) as kept,
        terminal(running, other, job) as ended,
    ):
        assert end_logins(running, "ada", "one", "three") == 204
        assert await closed(ended) == 4401
        eventually(
            "it is refused",
            lambda: running.status(other, job) == 403,
            within_s=WELL_BEFORE_CACHED_S,
        )
        assert running.status(browser, job) == 200
        await kept.send(json.dumps(["stdin", "echo kept\n"]))
        assert await kept.recv()
    assert end_logins(running, "ada", "two") == 204
    eventually(
        "it is refused", lambda: running.status(browser, job) == 403, within_s=WELL_BEFORE_CACHED_S
    )


async def test_other_users_stay_logged_in_and_may_end_nothing(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    assert end_logins(running, "eve") == 204
    assert running.status(browser, job) == 200
    browser.get(f"{running.url}/hub/home")
    url = f"{running.url}/hub/api/platform/users/ada/logins"
    assert browser.delete(url).status_code == 403
    assert job.env is not None
    own = {"Authorization": f"token {job.env['JUPYTERHUB_API_TOKEN']}"}
    assert httpx.delete(url, headers=own, trust_env=False).status_code == 403
    for headers in ({}, {"Authorization": "token wrong"}):
        asked = httpx.post(f"{running.base(job)}/aitne/logins", headers=headers, trust_env=False)
        assert asked.status_code == 403


def _copied(browser: httpx.Client) -> CookieJar:
    jar = CookieJar()
    for cookie in browser.cookies.jar:
        jar.set_cookie(cookie)
    return jar
