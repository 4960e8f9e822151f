"""A real JupyterHub behind a real proxy, with a stand-in for the platform."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import aitne
from aitne.adapters.hub_client import HubClient
from aitne.core.sessions.entry_points import session_url
from aitne.core.settings import Settings
from aitne.supervisor import software_environments
from aitne.supervisor.plan_creation import make_hub_child, make_proxy_child
from aitne.supervisor.proxy_error_pages import write_pages
from aitne.supervisor.secret_files import ensure_secrets
from aitne.supervisor.supervisor_plan import ChildPlan
from tests.integration.hub.standin import StandInJob, StandInPortal
from tests.support.platform import environments_or_skip
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually

LAUNCHER = Path(aitne.__file__).parent / "session_server" / "launcher.py"
ANSWER_WITHIN_S = 40.0


class RunningHub:
    """Hub and proxy as processes of their own."""

    def __init__(self, settings: Settings, portal: StandInPortal, root: Path) -> None:
        self.settings = settings
        self.portal = portal
        self.root = root
        self.url = settings.sessions_origin
        self.hub_url = f"http://127.0.0.1:{settings.port_of_hub}/hub"
        self.hub: subprocess.Popen[bytes] | None = None
        self.proxy: subprocess.Popen[bytes] | None = None
        self.token = self.secret("hub_api_token")

    def start_proxy(self) -> None:
        self.proxy = self._start(make_proxy_child(self.settings))
        routes = f"http://127.0.0.1:{self.settings.port_of_proxy_api}/api/routes"
        eventually("the proxy answers", lambda: self.answers(routes), ANSWER_WITHIN_S)

    def start_hub(self) -> None:
        self.hub = self._start(make_hub_child(self.settings))
        eventually(
            "the Hub answers", lambda: self.answers(f"{self.hub_url}/health"), ANSWER_WITHIN_S
        )

    def kill_hub(self) -> None:
        assert self.hub is not None
        self.hub.kill()
        self.hub.wait()

    def kill_proxy(self) -> None:
        assert self.proxy is not None
        self.proxy.kill()
        self.proxy.wait()

    def client(self) -> HubClient:
        return HubClient(self.hub_url.removesuffix("/hub"), self.token)

    def job(self, owner: str, *, launcher: bool = True) -> StandInJob:
        python = software_environments.session_env_dir() / "bin/python"
        argv = [str(python), "-I", str(LAUNCHER)] if launcher else None
        return self.portal.job(owner, argv, self.root / f"job-{len(self.portal.jobs)}")

    def api(self, path: str, method: str = "GET") -> httpx.Response:
        """Send a request to the Hub's API as the platform."""
        headers = {"Authorization": f"token {self.token}"}
        return httpx.request(method, f"{self.hub_url}/api{path}", headers=headers, trust_env=False)

    def status(self, browser: httpx.Client, job: StandInJob) -> int:
        """Return the HTTP status of the server's `/api/status`, as a browser gets it."""
        return browser.get(f"{self.base(job)}/api/status").status_code

    def base(self, job: StandInJob) -> str:
        """Return the URL of the job's server, without a path below it."""
        return session_url(self.settings.sessions_base, job.owner, job.id, "")

    @staticmethod
    def answers(url: str) -> bool:
        try:
            return httpx.get(url, trust_env=False).status_code < 500
        except httpx.HTTPError:
            return False

    def secret(self, name: str) -> str:
        """Return the content of a file in the secrets folder."""
        return (self.settings.secrets_dir / name).read_text().strip()

    def _start(self, child: ChildPlan) -> subprocess.Popen[bytes]:
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= child.env
        env |= {name: self.secret(file) for name, file in child.secret_env.items()}
        with (self.root / f"{child.name}.log").open("ab") as log:
            return subprocess.Popen(child.argv, stdout=log, stderr=log, env=env, cwd=self.root)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A running Hub with its proxy and a stand-in for the portal."""
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@contextmanager
def running_hub(root: Path, domain: str | None = None) -> Iterator[RunningHub]:
    """Run the Hub, its proxy and a stand-in portal; with ``domain`` each user has a host below it.

    Sessions then reach the Hub as those on nodes do: through the proxy, by another name than its
    own.
    """
    environments_or_skip()
    port = reserve_ports(5)
    settings = Settings(data_dir=root, port=port)
    if domain is not None:
        address = settings.sessions_origin
        settings = Settings(
            data_dir=root,
            port=port,
            sessions_url=f"http://*.{domain}:{port + 1}",
            scheduler="slurm_cli",
            slurm={"sessions_address": address},
        )
    ensure_secrets(settings.secrets_dir)
    write_pages(settings.run_dir / "pages", platform="Test", portal_url=settings.portal_url)
    (root / "hub").mkdir()
    with StandInPortal(settings.port, settings.sessions_origin, settings.secrets_dir) as portal:
        hub = RunningHub(settings, portal, root)
        try:
            hub.start_proxy()
            hub.start_hub()
            yield hub
        finally:
            for process in (hub.hub, hub.proxy):
                if process is not None:
                    process.kill()
                    process.wait()


@pytest.fixture
def browser() -> Iterator[httpx.Client]:
    """A client with cookies and redirects, as a browser has them."""
    with httpx.Client(follow_redirects=True, trust_env=False, timeout=30) as client:
        yield client
