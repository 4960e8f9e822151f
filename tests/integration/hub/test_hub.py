"""JupyterHub adopts running jobs, lets only their owners in, and may be killed at any moment."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from aitne.core.errors import Conflict, HubUnavailable
from tests.integration.hub.conftest import RunningHub
from tests.integration.hub.standin import StandInJob
from tests.support import realtime
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES


async def start(running: RunningHub, job: StandInJob) -> None:
    client = running.client()
    try:
        await client.start_server(job.owner, job.server, job.id, "A title")
    finally:
        await client.close()


async def open_lab(running: RunningHub, browser: httpx.Client) -> StandInJob:
    """Start a server of ada, and open it in her browser."""
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    return job


async def test_the_owner_is_logged_in_by_the_portal_and_reaches_the_server(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = await open_lab(running, browser)
    lab = browser.get(f"{running.base(job)}/lab")
    assert "jupyter-config-data" in lab.text
    config = json.loads(lab.text.split('type="application/json">')[1].split("</script>")[0])
    assert config["hubServerName"] == job.server
    assert config["news"] == {"disabled": True}
    assert running.status(browser, job) == 200


async def test_cookies_are_for_the_hub_or_for_one_server(
    running: RunningHub, browser: httpx.Client
) -> None:
    job, other = running.job("ada"), running.job("ada")
    await start(running, job)
    await start(running, other)
    running.portal.logged_in = "ada"
    for each in (job, other):
        assert browser.get(f"{running.url}/user/ada/{each.server}/lab").status_code == 200
    prefixes = {"/hub/", *(f"/user/ada/{each.server}/" for each in (job, other))}
    paths = {cookie.name: cookie.path for cookie in browser.cookies.jar}
    assert set(paths.values()) == prefixes
    for each in (job, other):
        assert paths[f"jupyterhub-user-ada-{each.server}"] == f"/user/ada/{each.server}/"
    set_by_hub = {"jupyterhub-hub-login", "jupyterhub-session-id"}
    assert {paths[name] for name in set_by_hub} == {"/hub/"}


async def test_cookie_of_a_login_in_progress_is_for_the_hub(
    running: RunningHub, browser: httpx.Client
) -> None:
    begun = browser.get(f"{running.url}/hub/oauth_login", follow_redirects=False)
    assert begun.status_code == 302
    assert {cookie.path for cookie in browser.cookies.jar} == {"/hub/"}


async def test_session_of_other_user_is_forbidden(running: RunningHub) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "eve"
    with httpx.Client(follow_redirects=True, trust_env=False) as eve:
        lab = eve.get(f"{running.url}/user/ada/{job.server}/lab")
        assert lab.status_code == 403
        assert running.portal.url in lab.text
        assert running.status(eve, job) == 403


async def test_a_job_of_somebody_else_is_not_adopted(running: RunningHub) -> None:
    job = running.job("ada", launcher=False)
    job.owner, owner = "bob", job.owner
    client = running.client()
    with pytest.raises(Conflict, match="not belong to ada"):
        await client.start_server(owner, job.server, job.id, "Mine?")
    await client.close()
    assert job.handovers == 0


async def test_users_cannot_start_servers_themselves(
    running: RunningHub, browser: httpx.Client
) -> None:
    running.portal.logged_in = "ada"
    browser.get(f"{running.url}/hub/home")
    spawn = browser.get(f"{running.url}/hub/spawn")
    assert spawn.status_code == 403
    assert running.portal.url in spawn.text
    xsrf = browser.cookies.get("_xsrf", path="/hub/") or ""
    post = browser.post(
        f"{running.url}/hub/api/users/ada/servers/mine", headers={"X-XSRFToken": xsrf}, json={}
    )
    assert post.status_code == 403


async def test_metrics_of_hub_and_session_are_for_no_user(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = await open_lab(running, browser)
    url = f"{running.url}/hub/metrics"
    tokens = (running.token, running.secret("metrics_token"), running.secret("proxy_auth_token"))
    for token in tokens:
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
            assert client.get(url).status_code == 403
    with httpx.Client(trust_env=False) as stranger:
        answers = {
            path: stranger.get(f"{running.url}{path}") for path in ("/hub/metrics", "/metrics")
        }
        assert [answer.status_code for answer in answers.values()] == [403, 404]
        elsewhere = stranger.get(f"{running.base(job)}/metrics")
        assert elsewhere.status_code in (302, 403)
        assert not any("python_info" in one.text for one in (*answers.values(), elsewhere))
        proxy = f"http://127.0.0.1:{running.settings.port_of_proxy_api}"
        assert stranger.get(f"{proxy}/metrics").status_code == 404
    assert browser.get(url).status_code == 403
    assert "python_info" in browser.get(f"{running.base(job)}/metrics").text
    xsrf = {"X-XSRFToken": browser.cookies.get("_xsrf", path="/hub/") or ""}
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert browser.request(method, url, headers=xsrf).status_code == 405, method


def test_the_hubs_own_pages_lead_to_the_portal(running: RunningHub, browser: httpx.Client) -> None:
    running.portal.logged_in = "ada"
    home = browser.get(f"{running.url}/hub/home")
    assert f"url={running.portal.url}" in home.text
    assert str(browser.get(f"{running.url}/hub/").url).startswith(running.portal.url)


def test_service_worker_stays_below_the_path_of_its_session(running: RunningHub) -> None:
    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Service-Worker-Allowed", "/")
            self.send_header("X-Own", "kept")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        route = {"target": f"http://127.0.0.1:{server.server_port}"}
        answer = httpx.post(
            f"http://127.0.0.1:{running.settings.port_of_proxy_api}/api/routes/user/eve/s-1",
            headers={"Authorization": f"token {running.secret('proxy_auth_token')}"},
            json=route,
            trust_env=False,
        )
        assert answer.status_code == 201
        script = httpx.get(f"{running.url}/user/eve/s-1/worker.js", trust_env=False)
        server.shutdown()
    assert script.headers["x-own"] == "kept"
    assert "service-worker-allowed" not in script.headers


@pytest.mark.parametrize("path", ["/", "/user/ada/s-000000000000/lab", "/api/v1/jobs", "/hubris"])
def test_path_without_route_returns_page_with_portal_link(running: RunningHub, path: str) -> None:
    answer = httpx.get(running.url + path, trust_env=False)
    assert answer.status_code == 404
    assert running.portal.url in answer.text
    assert "set-cookie" not in answer.headers


async def test_a_killed_hub_comes_back_and_the_server_is_still_there(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = await open_lab(running, browser)
    assert running.status(browser, job) == 200
    running.kill_hub()
    # The cookie's token was looked up a moment ago, so not even this needs the Hub.
    assert running.status(browser, job) == 200
    client = running.client()
    with pytest.raises(HubUnavailable):
        await client.remove_server("ada", job.server)
    await client.close()
    running.start_hub()
    assert running.status(browser, job) == 200
    server = running.api("/users/ada").json()["servers"][job.server]
    assert server["ready"]
    # Idempotent: it is already there.
    await start(running, job)
    assert job.handovers == 1


async def test_a_killed_proxy_has_its_routes_back_when_the_hub_is_asked(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = await open_lab(running, browser)
    running.kill_proxy()
    running.start_proxy()
    assert running.status(browser, job) == 404
    assert running.api("/proxy", "POST").is_success
    assert running.status(browser, job) == 200


async def test_a_hub_killed_while_a_server_starts_hands_the_same_token_over_again(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = running.job("ada", launcher=False)  # takes the environment and never answers
    running.api("/users/ada", "POST")
    body = {"display_name": "x", "user_options": {"job_id": str(job.id)}}
    url = f"{running.hub_url}/api/users/ada/servers/{job.server}"
    headers = {"Authorization": f"token {running.token}"}
    assert httpx.post(url, json=body, headers=headers, trust_env=False).status_code == 202
    eventually("the hand-over came", lambda: job.env is not None)
    first = job.env
    running.kill_hub()
    running.start_hub()
    job.env = None
    assert httpx.post(url, json=body, headers=headers, trust_env=False).status_code == 202
    eventually("the hand-over came", lambda: job.env is not None)
    assert first is not None
    assert job.env is not None
    assert job.env["JUPYTERHUB_API_TOKEN"] == first["JUPYTERHUB_API_TOKEN"]
    who = httpx.get(
        f"{running.hub_url}/api/user",
        headers={"Authorization": f"token {first['JUPYTERHUB_API_TOKEN']}"},
        trust_env=False,
    )
    assert who.json()["name"] == "ada"
    job.live = False
    client = running.client()
    with pytest.raises(Conflict, match="ended before its server answered"):
        await client.start_server(job.owner, job.server, job.id, "x")
    await client.remove_server(job.owner, job.server)
    await client.close()
    headers = {"Authorization": f"token {first['JUPYTERHUB_API_TOKEN']}"}
    gone = httpx.get(f"{running.hub_url}/api/user", headers=headers, trust_env=False)
    assert gone.status_code == 403


async def test_a_silent_platform_ends_nothing_and_a_plain_word_does(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = await open_lab(running, browser)
    route = f"/users/ada/servers/{job.server}"
    running.portal.silent = True
    running.api(route, "POST")  # has the Hub look at its server
    assert running.api(route).json()["ready"]
    running.portal.silent = False
    job.live = False
    eventually("the route is gone", lambda: running.status(browser, job) == 404, within_s=20)
    assert job.process is not None
    assert job.process.poll() is None, "the Hub ends no job"


async def test_labs_shut_down_ends_the_process(running: RunningHub, browser: httpx.Client) -> None:
    job = await open_lab(running, browser)
    base = running.base(job)
    xsrf = browser.cookies.get("_xsrf", path=f"/user/ada/{job.server}/") or ""
    assert browser.post(f"{base}/api/shutdown", headers={"X-XSRFToken": xsrf}).status_code == 200
    assert job.process is not None
    assert job.process.wait(20) == 0


async def test_removing_a_server_takes_its_route_and_is_done_twice_without_harm(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    client = running.client()
    await client.remove_server("ada", job.server)
    assert job.server not in running.api("/users/ada").json()["servers"]
    assert running.status(browser, job) == 404
    await client.remove_server("ada", job.server)
    await client.remove_server("nobody", job.server)
    await client.close()
    assert job.process is not None
    assert job.process.poll() is None
