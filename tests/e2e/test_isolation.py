"""A page of bob's session attacks alice's in a real Chromium, over http and over https."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aitne.supervisor.nodejs_lookup import find_nodejs
from tests.support import realtime
from tests.support.browser import ROOT
from tests.support.platform import RunningPlatform, run_platform

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.long,
    realtime.BROWSER,
]

DOMAIN = "sessions.localhost"
# Everything runs as one Unix user here, so bob's own configuration looks whose session it is.
CONFIGURATION = """
import os, sys
if os.environ.get("JUPYTERHUB_USER") == "bob":
    sys.path.insert(0, os.path.dirname(__file__))
    c.ServerApp.extra_services = ["bobs_page"]
"""
PAGE = """
import os
from tornado.web import RequestHandler

class Page(RequestHandler):
    def get(self, name):
        with open(os.path.join(os.path.dirname(__file__), "cookies"), "a") as seen:
            seen.write(self.request.headers.get("Cookie", "") + "\\n")
        for line in self.get_arguments("set"):
            self.add_header("Set-Cookie", line)
        if name.endswith(".js"):
            self.set_header("Content-Type", "text/javascript")
            self.set_header("Service-Worker-Allowed", "/")
            self.finish("self.addEventListener('fetch', () => {})")
        else:
            self.finish("<!doctype html><title>bob</title><body>")

default_handlers = [(r"/pub/(.*)", Page)]
"""


class Scene:
    """A platform on which alice and bob have each a session."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.platform = platform
        scheme = "https" if platform.tls else "http"
        self.hub = f"{scheme}://{DOMAIN}:{platform.port + 1}"
        self.folder = platform.home / ".jupyter"

    def prepare(self) -> None:
        """Write the page of bob; create both users."""
        self.folder.mkdir()
        (self.folder / "jupyter_server_config.py").write_text(CONFIGURATION)
        (self.folder / "bobs_page.py").write_text(PAGE)
        for user in ("alice", "bob"):
            assert self.platform.aitne("admin", "user", "create", user).returncode == 0

    def attack(self, chromium: str) -> dict[str, Any]:
        """Run `attack.mjs` and return the outcome of each attack."""
        tokens = {user: self.platform.token_of(user) for user in ("alice", "bob")}
        given = {
            **{user: self._session(token) for user, token in tokens.items()},
            "links": {user: self.platform.login_link(token) for user, token in tokens.items()},
            "portal": self.platform.url,
            "hub": self.hub,
            "spki": self._spki(),
        }
        script = ROOT / "tests" / "e2e" / "attack.mjs"
        done = subprocess.run(
            [str(find_nodejs().program), str(script), json.dumps(given)],
            env={**os.environ, "AITNE_CHROMIUM": chromium},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found | {"alice": given["alice"]}

    def cookies(self) -> set[str]:
        """Return the names of the cookies that bob's page received, without those that it set itself."""
        sent = (self.folder / "cookies").read_text().replace("\n", ";").split(";")
        pairs = [each.strip().partition("=") for each in sent]
        return {name for name, _, value in pairs if value != "planted"} - {""}

    def _session(self, token: str) -> str:
        done = self.platform.aitne(
            *("session", "start", "jupyterlab", "--yes", "--wait", "--json"),
            env={
                "AITNE_TOKEN": token,
                "AITNE_URL": self.platform.url,
                "SSL_CERT_FILE": str(self.platform.authority),
            },
        )
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["url"]).removesuffix("/lab")

    def _spki(self) -> str:
        """Return the digest by which Chromium trusts the platform's certificate; empty without TLS."""
        if not self.platform.tls:
            return ""
        pem = (self.platform.data_dir / "tls" / "server.pem").read_bytes()
        key = x509.load_pem_x509_certificate(pem).public_key()
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(der).digest()).decode()


@pytest.fixture(params=["http", "https"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """The platform, with a domain for each user."""
    config = "[tls]\nenabled = true" if request.param == "https" else ""
    platform = RunningPlatform(tmp_path, config, domain=DOMAIN)
    made = Scene(platform)
    with run_platform(platform):
        made.prepare()
        yield made


def test_page_of_another_users_session_can_do_nothing(scene: Scene, chromium: str) -> None:
    found = scene.attack(chromium)
    alice = found["alice"]
    # Alice herself can do all of it.
    assert (found["own_terminal"], found["own_socket"]) == (200, "open")
    assert found["bobs_origin"].startswith("bob.")
    assert {name: found[name] for name in ("read", "read_hub", "frame", "socket")} == {
        "read": "blocked",
        "read_hub": "blocked",
        "frame": "closed to bob",
        "socket": "refused",
    }
    assert found["document_domain"] != "set"
    assert (found["worker"], found["worker_of_bob"]) == ("SecurityError", "SecurityError")
    assert found["popup_is_alices"]
    assert found["popup"] == ["SecurityError", "SecurityError", True]
    assert found["terminals_more"] == 0, "a request of bob's page made a terminal"
    assert found["planted"]["prefixed"] == found["planted"]["alices"] == []
    assert found["lab_after_session_id"] == 200
    assert found["login_planted"] == f"200 {alice}/lab"
    assert found["callback_has_code"]
    assert found["login_forged"] == f"200 {alice}/lab"
    assert not {name for name in scene.cookies() if "jupyterhub" in name and "bob" not in name}
