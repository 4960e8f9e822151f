"""A platform behind the nginx and the Caddy of ``docs/howto/reverse-proxy.md``."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import random
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

import httpx
import pytest

from aitne.client import Client
from aitne.core.dataset_manifest import HEADER, MOST_BYTES
from tests.support import realtime, reverse_proxies
from tests.support.platform import RunningPlatform, run_platform
from tests.support.reverse_proxies import CLIENT, PORTAL, SESSIONS, Front, Site

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

FORGED = "203.0.113.7"
YEAR = "max-age=31536000"
WITHIN_S = 10.0
"""Less than the time between two heartbeats of the stream of events, which would push out what waits."""


@dataclass(frozen=True)
class Served:
    """The platform and a session on it, which both proxies serve."""

    platform: RunningPlatform
    client: Client
    site: Site
    job: str
    session_url: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.platform.token}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # The folder of the tests is closed to the account of nginx.
    with tempfile.TemporaryDirectory(prefix="aitne-proxy-") as folder:
        authority = reverse_proxies.prepare(Path(folder))
        sessions_url = SESSIONS.replace("://", "://*.")
        lines = [f'public_url = "{PORTAL}"', f'sessions_url = "{sessions_url}"']
        lines += [f'proxy_socket = "{folder}/run/portal.sock"']
        platform = RunningPlatform(tmp_path_factory.mktemp("platform"), "\n".join(lines))
        site = Site(Path(folder), authority, platform.port + 1)
        with run_platform(platform):
            client = Client(platform.url, platform.token)
            session = client.sessions.wait_ready(client.sessions.start("jupyterlab").id)
            assert session.url is not None
            yield Served(platform, client, site, str(session.id), session.url)


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def front(request: pytest.FixtureRequest, served: Served) -> Iterator[Front]:
    with getattr(reverse_proxies, request.param)(served.site) as running:
        yield running


@pytest.fixture
def browser(front: Front, served: Served) -> Iterator[httpx.Client]:
    """A browser that is logged in at the portal, and tells a wrong address of itself."""
    link = served.platform.login_link()
    assert link.startswith(f"{PORTAL}/")
    with front.browser() as client:
        client.headers["X-Forwarded-For"] = FORGED
        client.headers["X-Real-IP"] = FORGED
        login = client.post(
            f"{PORTAL}/api/v1/auth/login-link",
            json={"token": link.partition("#link=")[2]},
            headers={"Origin": PORTAL},
        )
        assert login.status_code == 200, login.text
        yield client


def test_login_is_secure_and_has_the_address_of_the_client(
    browser: httpx.Client, served: Served
) -> None:
    assert browser.cookies.jar
    assert all(cookie.secure for cookie in browser.cookies.jar)
    sign_ins = browser.get(f"{PORTAL}/api/v1/account/sign-ins").json()["items"]
    assert [each["address"] for each in sign_ins if each["current"]] == [CLIENT]
    assert browser.get(f"{SESSIONS}/hub/home").status_code == 200
    log = (served.platform.data_dir / "logs" / "hub.log").read_text()
    assert f"@{CLIENT}" in log
    assert FORGED not in log


def test_both_origins_are_served_by_https_alone(front: Front, served: Served) -> None:
    sessions = f"{YEAR}; includeSubDomains"
    unknown = SESSIONS.replace("://", "://not-a-user.")
    with front.browser() as browser:
        for url, status, expected in (
            (f"{PORTAL}/login", 200, YEAR),
            (f"{PORTAL}/api/v1/me", 401, YEAR),
            (f"{SESSIONS}/hub/health", 200, sessions),
            (f"{unknown}/user/not-a-user/", 404, sessions),
        ):
            answer = browser.get(url)
            assert answer.status_code == status, url
            assert answer.headers.get_list("strict-transport-security") == [expected]
        for url in (f"{PORTAL}/jobs?q=1", f"{SESSIONS}/hub/", served.session_url):
            answer = browser.post(url.replace("https:", "http:"), follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (308, url)
    anything = ssl.create_default_context()
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        front.connect("other.example.org", anything)
    name = {"Host": urlsplit(SESSIONS).netloc}
    direct = httpx.get(f"{served.platform.sessions_url}/hub/health", headers=name, trust_env=False)
    assert direct.headers["strict-transport-security"] == sessions


def test_events_arrive_at_once(browser: httpx.Client, served: Served) -> None:
    with browser.stream("GET", f"{PORTAL}/api/v1/events", timeout=WITHIN_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert "event: hello" in (next(lines), next(lines))
        job = served.client.jobs.create(
            {"commands": ["true"], "resources": {"cpu": 1, "memory": "64M"}}
        )
        for line in lines:
            if str(job.id) in line and "COMPLETED" in line:
                break


def test_websockets_reach_terminals_and_kernels(
    front: Front, browser: httpx.Client, served: Served
) -> None:
    path = f"/api/v1/jobs/{served.job}/terminal"
    ticket = browser.post(f"{PORTAL}{path}", json={"node": None}, headers=served.bearer)
    assert ticket.status_code < 300, ticket.text
    start = {"kind": "shell", "argv": ["cat"], "tty": False}
    with front.websocket(f"{PORTAL}{path}".replace("https", "wss"), origin=PORTAL) as socket:
        socket.send(json.dumps({"type": "open", "ticket": ticket.json()["ticket"], "start": start}))
        assert json.loads(socket.recv(WITHIN_S))["type"] == "started"
        socket.send(b"there and back")
        heard = b""
        while b"there and back" not in heard:
            message = socket.recv(WITHIN_S)
            heard += message if isinstance(message, bytes) else b""

    lab = browser.get(served.session_url)
    assert lab.status_code == 200, lab.text
    assert str(lab.url) == served.session_url
    base = served.session_url.removesuffix("/lab")
    url = urlsplit(base)
    cookies = {
        cookie.name: cookie.value or ""
        for cookie in browser.cookies.jar
        if cookie.domain == url.netloc and url.path.startswith(cookie.path.rstrip("/"))
    }
    headers = {"X-XSRFToken": cookies["_xsrf"]}
    kernel = browser.post(f"{base}/api/kernels", json={"name": "python3"}, headers=headers)
    assert kernel.status_code == 201, kernel.text
    channels = f"{base}/api/kernels/{kernel.json()['id']}/channels".replace("https", "wss")
    pairs = "; ".join(f"{name}={value}" for name, value in cookies.items())
    with front.websocket(channels, origin=f"https://{url.netloc}", cookies=pairs) as socket:
        socket.send(json.dumps(kernel_info_request()))
        while json.loads(socket.recv(4 * WITHIN_S))["msg_type"] != "kernel_info_reply":
            pass


def test_bodies_have_the_limits_of_the_portal(browser: httpx.Client, served: Served) -> None:
    digits = random.Random(1)
    lines = (f"{digits.randbytes(32).hex()}\t1\t{number:08}\n" for number in range(60_000))
    text = HEADER + "".join(lines).encode()
    packed = gzip.compress(text, 1)
    assert len(packed) > 2 << 20
    manifest = f"/api/v1/manifests/{hashlib.sha256(text).hexdigest()}"
    upload = browser.put(f"{PORTAL}{manifest}", content=packed, headers=served.bearer)
    assert upload.status_code == 201, upload.text
    job = browser.post(
        f"{PORTAL}/api/v1/jobs",
        content=b" " * (2 << 20),
        headers=served.bearer | {"Content-Type": "application/json"},
    )
    assert (job.status_code, job.json()["code"]) == (413, "too_large")


@pytest.mark.long
def test_connection_without_a_whole_header_is_closed(front: Front) -> None:
    host = urlsplit(PORTAL).netloc
    with (
        create_connection(("127.0.0.1", front.https_port), timeout=60) as silent,
        front.connect(host, front.trusted) as half,
    ):
        half.settimeout(60)
        half.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n".encode())
        assert silent.recv(1) == half.recv(1) == b""


@pytest.mark.parametrize("front", ["nginx"], indirect=True)
def test_nginx_refuses_larger_bodies_than_any_route_takes(front: Front) -> None:
    host = urlsplit(PORTAL).netloc
    with closing(http.client.HTTPConnection(host)) as connection:
        connection.sock = front.connect(host, front.trusted)
        length = {"Content-Length": str(MOST_BYTES + 1)}
        connection.request("PUT", f"/api/v1/manifests/{'0' * 64}", headers=length)
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("front", ["caddy"], indirect=True)
def test_caddy_gets_its_certificate_by_acme(front: Front) -> None:
    host = urlsplit(PORTAL).netloc
    with front.connect(host, front.trusted) as connection:
        found = connection.getpeercert() or {}
    assert found["subjectAltName"] == (("DNS", host),)
    issuer = dict(pair for (pair,) in found["issuer"])
    assert issuer["commonName"].startswith("Pebble Intermediate CA")
    with front.browser() as browser:
        assert browser.get(f"{PORTAL}/readyz").status_code == 200


def kernel_info_request() -> dict[str, object]:
    """Return the message that a kernel answers with what it is."""
    header = {
        "msg_id": "1",
        "msg_type": "kernel_info_request",
        "session": "1",
        "username": "test",
        "version": "5.3",
        "date": "2026-01-01T00:00:00Z",
    }
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": {},
        "channel": "shell",
        "buffers": [],
    }
