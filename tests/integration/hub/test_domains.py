"""Each user on a host of its own: what the Hub routes, which cookies go where, and what a name is made of."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.hub.conftest import RunningHub, running_hub
from tests.integration.hub.test_hub import start
from tests.support import local_names, realtime

pytestmark = realtime.PROCESSES


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A running Hub with its proxy and a domain for each user."""
    root = tmp_path_factory.mktemp("domains")
    with running_hub(root, "sessions.localhost") as hub:
        yield hub


@pytest.fixture
def browser() -> Iterator[httpx.Client]:
    """A browser that resolves ``*.localhost``."""
    with local_names.browser() as client:
        yield client


def scopes(browser: httpx.Client) -> dict[str, tuple[str, str]]:
    """Return domain and path of each cookie; the names of XSRF cookies include the domain."""
    return {
        f"{each.name} {each.domain}" if each.name == "_xsrf" else each.name: (
            each.domain,
            each.path,
        )
        for each in browser.cookies.jar
    }


@pytest.mark.parametrize(
    ("owner", "label"), [("ada", "ada"), ("a_b", "u-ab--648fa9b31bc7ff7eb914"), ("www", "u-www--")]
)
async def test_session_is_at_the_host_of_its_owner(
    running: RunningHub, browser: httpx.Client, owner: str, label: str
) -> None:
    job = running.job(owner)
    await start(running, job)
    running.portal.logged_in = owner
    lab = browser.get(f"{running.base(job)}/lab")
    assert lab.status_code == 200
    assert str(lab.url) == f"{running.base(job)}/lab"
    assert lab.url.host.startswith(label)
    assert lab.url.host.endswith(".sessions.localhost")
    assert running.status(browser, job) == 200
    assert lab.headers["cross-origin-opener-policy"] == "same-origin"
    assert lab.headers["cross-origin-resource-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in lab.headers["content-security-policy"]
    full = running.api(f"/users/{owner}").json()["servers"][job.server]["full_url"]
    assert full == f"{running.base(job)}/"


async def test_cookies_belong_to_one_host_and_cannot_be_set_from_another(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    login = browser.get(f"{running.url}/hub/oauth_login", follow_redirects=False)
    assert login.headers["set-cookie"].startswith("__Host-oauthenticator-state=")
    assert browser.get(f"{running.base(job)}/lab").status_code == 200
    hub, ada = "sessions.localhost", "ada.sessions.localhost"
    found = scopes(browser)
    assert found.pop(f"_xsrf {hub}") == (hub, "/hub/")
    assert found.pop(f"_xsrf {ada}") == (ada, f"/user/ada/{job.server}/")
    assert found == {
        "__Host-jupyterhub-hub-login": (hub, "/"),
        "__Host-jupyterhub-session-id": (hub, "/"),
        f"__Host-jupyterhub-user-ada-{job.server}": (ada, "/"),
    }
    assert not any(each.domain_specified for each in browser.cookies.jar)
    ours = [each for each in browser.cookies.jar if each.name.startswith("__Host-")]
    assert all(each.has_nonstandard_attr(local_names.SECURE) for each in ours)


async def test_host_of_another_user_has_neither_the_session_nor_the_hub(
    running: RunningHub, browser: httpx.Client
) -> None:
    job, other = running.job("ada"), running.job("eve")
    await start(running, job)
    await start(running, other)
    running.portal.logged_in = "eve"
    assert browser.get(f"{running.base(job)}/lab").status_code == 403
    assert running.status(browser, job) == 403
    eve = running.base(other).partition("/user/")[0]
    for path in (f"/user/ada/{job.server}/lab", "/hub/home", "/hub/api", "/"):
        assert browser.get(f"{eve}{path}").status_code == 404


async def test_session_outlives_the_hub_and_the_proxy(
    running: RunningHub, browser: httpx.Client
) -> None:
    job = running.job("ada")
    await start(running, job)
    running.portal.logged_in = "ada"
    browser.get(f"{running.base(job)}/lab")
    running.kill_hub()
    assert running.status(browser, job) == 200
    running.kill_proxy()
    running.start_proxy()
    running.start_hub()
    assert running.api("/proxy", "POST").is_success
    assert running.status(browser, job) == 200
    with local_names.browser() as another:
        assert another.get(f"{running.base(job)}/lab").status_code == 200
