"""TLS from the browser to a session on a node: which certificates are shown, and who is let in."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support import local_names, realtime
from tests.support.platform import RunningPlatform, on_cluster, run_platform
from tests.support.slurm import run_as
from tests.support.waiting import eventually

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300), realtime.PLATFORM]

SMALL = {"resources": {"cpu": 1, "memory": "512M"}, "max_duration": "30m"}
DOMAIN = "sessions.localhost"
KERNEL_INFO = {
    "header": {
        "msg_id": "renewed",
        "msg_type": "kernel_info_request",
        "version": "5.3",
        "username": "",
        "session": "",
        "date": "2026-01-01T00:00:00Z",
    },
    "parent_header": {},
    "metadata": {},
    "content": {},
    "channel": "shell",
}


@pytest.fixture(scope="module")
def tls_platform(
    slurm_cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningPlatform]:
    """A platform with TLS and a domain for each user; nodes reach it by an address."""
    running = on_cluster(tmp_path_factory.mktemp("tls"), slurm_cluster, "[tls]\nenabled = true")
    settings = running.data_dir / "aitne.toml"
    origin = f"{DOMAIN}:{running.port + 1}"
    address = f'sessions_address = "https://127.0.0.1:{running.port + 1}"'
    text = settings.read_text().replace("[slurm]\n", f"[slurm]\n{address}\n")
    settings.write_text(f'sessions_url = "https://*.{origin}"\n{text}')
    with run_platform(running):
        yield running


@pytest.fixture
def alice(tls_platform: RunningPlatform, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The SDK, which trusts the platform's CA as the guide says."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_platform.authority))
    return Client(tls_platform.url, tls_platform.token_of("alice"))


@pytest.fixture
def session(alice: Client) -> Iterator[dict[str, Any]]:
    """A session that is ready."""
    job = alice.sessions.start("jupyterlab", job_file=SMALL)
    alice.sessions.wait_ready(job.id, timeout_s=120)
    yield {"id": str(job.id), "url": alice.sessions.open(job.id)}
    alice.sessions.stop(job.id)


@contextmanager
def logged_in(platform: RunningPlatform, alice: Client) -> Iterator[httpx.Client]:
    """A browser that has logged in at the portal."""
    with local_names.browser(verify=platform.trust(), trust_env=False) as client:
        link = alice.tokens.login_link().url
        login = client.post(
            f"{platform.url}/api/v1/auth/login-link",
            json={"token": link.partition("#link=")[2]},
            headers={"Origin": platform.url},
        )
        login.raise_for_status()
        yield client


def session_address(session_id: str) -> tuple[str, int]:
    """Return the address at which the session's server listens."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes()
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"launcher.py" in argv and f"/{session_id}/".encode() in environ:
            listing = ["ss", "-tlnpH"]
            lines = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
            for line in lines.splitlines():
                if f"pid={entry.name}," in line:
                    host, _, port = line.split()[3].rpartition(":")
                    return host.strip("[]"), int(port)
    raise AssertionError("the server was not found")


def answer(address: tuple[str, int], context: ssl.SSLContext | None, name: str = "") -> bytes:
    """Return the beginning of the answer; empty without a connection."""
    try:
        with socket.create_connection(address, timeout=10) as plain:
            line = plain if context is None else context.wrap_socket(plain, server_hostname=name)
            with line:
                line.sendall(b"GET /api HTTP/1.0\r\n\r\n")
                return line.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


def shown_at(port: int) -> str:
    """Return the certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", port))


def renew_certificates(platform: RunningPlatform) -> None:
    """Let the platform issue the certificates of portal, proxy and JupyterHub again while it runs."""
    ports = (platform.port, platform.port + 1)
    before = {port: shown_at(port) for port in ports}
    for name in ("server.pem", "proxy.pem"):
        (platform.data_dir / "tls" / name).unlink()
    pids = platform.pids()
    os.kill(pids["api"], signal.SIGHUP)
    eventually("it is issued", (platform.data_dir / "tls" / "server.pem").exists)
    eventually("the portal uses it", lambda: shown_at(ports[0]) != before[ports[0]])
    os.kill(pids["proxy"], signal.SIGHUP)
    eventually("the proxy uses it", lambda: shown_at(ports[1]) != before[ports[1]])
    assert shown_at(ports[0]) == shown_at(ports[1])
    assert pids == platform.pids()


def test_session_is_opened_and_left_over_tls(
    tls_platform: RunningPlatform, alice: Client, session: dict[str, Any]
) -> None:
    base = session["url"].removesuffix("/lab")
    url = urlsplit(base)
    assert (url.scheme, url.hostname) == ("https", f"alice.{DOMAIN}")
    with logged_in(tls_platform, alice) as browser:
        lab = browser.get(session["url"])
        assert str(lab.url) == session["url"]
        assert lab.status_code == 200
        for page in (lab, browser.get(f"{tls_platform.url}/")):
            assert page.headers["strict-transport-security"].startswith("max-age=31536000")
        xsrf = {"X-XSRFToken": browser.cookies.get("_xsrf", domain=url.hostname, path=None) or ""}
        made = browser.post(f"{base}/api/kernels", headers=xsrf)
        made.raise_for_status()
        cookies = "; ".join(
            f"{each.name}={each.value}"
            for each in browser.cookies.jar
            if each.domain == url.hostname
        )
        trust = tls_platform.trust()
        with connect(
            f"wss://{url.netloc}{url.path}/api/kernels/{made.json()['id']}/channels",
            sock=socket.create_connection(("127.0.0.1", tls_platform.port + 1)),
            ssl=trust if isinstance(trust, ssl.SSLContext) else None,
            additional_headers={"Cookie": cookies},
            origin=f"https://{url.netloc}",  # type: ignore[arg-type]
            proxy=None,
        ) as kernel:
            assert json.loads(kernel.recv(timeout=30))["msg_type"] == "status"
            renew_certificates(tls_platform)
            # Neither process was restarted, so the connection to the kernel goes on.
            kernel.send(json.dumps(KERNEL_INFO))
            while json.loads(kernel.recv(timeout=30))["msg_type"] != "kernel_info_reply":
                continue
        assert browser.get(f"{base}/api/status").status_code == 200
        # JupyterHub tells the server over TLS that the login is over.
        administrator = {"Authorization": f"Bearer {tls_platform.token}"}
        browser.delete(
            f"{tls_platform.url}/api/v1/users/alice/sign-ins", headers=administrator
        ).raise_for_status()
        status = f"{base}/api/status"
        eventually("the session refuses", lambda: browser.get(status).status_code == 403)


def test_session_lets_in_the_proxy_alone(
    slurm_cluster: DevCluster, tls_platform: RunningPlatform, session: dict[str, Any]
) -> None:
    address = session_address(session["id"])
    authority = tls_platform.data_dir / "tls" / "sessions_ca.pem"
    trusting = ssl.create_default_context(cafile=authority)
    assert answer(address, None) == b""
    for name in (address[0], f"alice.{DOMAIN}"):
        assert answer(address, trusting, name) == b"", "without a certificate"
    folder = Path(f"/home/alice/.aitne/jobs/{session['id']}/1/tls")
    other = ssl.create_default_context(cafile=authority)
    other.load_cert_chain(folder / "server.pem", folder / "key.pem")
    assert answer(address, other, address[0]) == b"", "a session's certificate opens no session"
    proxy = ssl.create_default_context(cafile=authority)
    secrets = tls_platform.data_dir / "secrets"
    proxy.load_cert_chain(tls_platform.data_dir / "tls" / "proxy.pem", secrets / "proxy_key.pem")
    assert answer(address, proxy, address[0]).startswith(b"HTTP/1.")
    # Clients of the portal take no session for it: users have the keys of sessions.
    clients = ssl.create_default_context(cafile=tls_platform.authority)
    with (
        socket.create_connection(address) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        clients.wrap_socket(plain, server_hostname=address[0])
    with pytest.raises(subprocess.CalledProcessError):
        run_as(slurm_cluster, "bob", "cat", str(folder / "key.pem"))


def test_ports_of_the_platform_answer_no_plain_http(tls_platform: RunningPlatform) -> None:
    for port in (tls_platform.port, tls_platform.port + 1):
        assert not answer(("127.0.0.1", port), None).startswith(b"HTTP/1")


def test_key_of_a_session_is_removed_at_its_end(alice: Client) -> None:
    job = alice.sessions.start("jupyterlab", job_file=SMALL)
    alice.sessions.wait_ready(job.id, timeout_s=120)
    folder = Path(f"/home/alice/.aitne/jobs/{job.id}/1/tls")
    assert folder.is_dir()
    alice.sessions.stop(job.id)
    eventually("the key is removed", lambda: not folder.exists())
