"""A real OpenID provider on a loopback port, and a person who clicks through its page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from aitne.supervisor.nodejs_lookup import find_nodejs
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking

ROOT = Path(__file__).resolve().parents[2]
SECRET = "shared with the provider"


@dataclass(frozen=True)
class Provider:
    """A running OpenID Connect provider."""

    issuer: str

    def answer(self, url: str, person: str) -> str:
        """Log in as a person at the provider; return the address that the browser is sent back to."""
        with httpx.Client(trust_env=False) as browser:
            found = browser.get(url)
            while found.is_redirect:
                target = urljoin(str(found.url), found.headers["location"])
                if urlsplit(target).netloc != urlsplit(self.issuer).netloc:
                    return target
                found = browser.get(target)
                if "<form" in found.text:
                    found = browser.post(target, data={"id": person})
            raise AssertionError(f"The provider stopped at {found.url}: {found.text}")


@contextmanager
def openid_provider(redirect_uri: str) -> Iterator[Provider]:
    """Run a provider during the block; its only client is a platform at ``redirect_uri``."""
    if not (ROOT / "frontend/node_modules/oidc-provider").is_dir():
        lacking("oidc", "the portal's packages are not installed: make frontend/dist/.built")
    port = reserve_ports()
    argv = [str(find_nodejs().program), str(ROOT / "tests/support/oidc_provider.mjs")]
    process = subprocess.Popen(
        [*argv, str(port), redirect_uri],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.strip() == "ready":
                break
        assert "".join(said).rstrip().endswith("ready"), "".join(said)
        yield Provider(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
