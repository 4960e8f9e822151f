"""A whole platform for tests that need one: the command starts it, in a directory and home of its own."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.local_system.platform_folders import cache_dir
from aitne.supervisor import platform_control, software_environments
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking
from tests.support.waiting import eventually

AITNE = Path(sys.executable).parent / "aitne"


def environments_or_skip() -> None:
    """Make the environments beside the platform's own; skip where they cannot be had."""
    try:
        software_environments.ensure_environments(print)
    except SetupError as error:
        lacking("hub", f"JupyterHub's environments cannot be made: {error.message}")


class RunningPlatform:
    """API, controller, JupyterHub and proxy, with one administrator whose token is ``token``."""

    def __init__(self, root: Path, config: str = "", *, domain: str | None = None) -> None:
        self.data_dir = root / "data"
        self.home = root / "home"
        for folder in (self.data_dir, self.home):
            folder.mkdir(mode=0o700, parents=True)
        self.port = reserve_ports(5)
        self.tls = "[tls]" in config
        scheme = "https" if self.tls else "http"
        if domain is not None:
            config = f'sessions_url = "{scheme}://*.{domain}:{self.port + 1}"\n{config}'
        if config:
            (self.data_dir / "aitne.toml").write_text(config)
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.sessions_url = f"{scheme}://127.0.0.1:{self.port + 1}"
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith("AITNE_")
        } | {
            "AITNE_TRUSTED_USERS": "true",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_DATA_HOME": str(root / "share"),
            # The environments are made once for all tests.
            "XDG_CACHE_HOME": str(cache_dir().parent),
        }
        self.command = [str(AITNE)]

    @property
    def token(self) -> str:
        """The command line's own token: the first administrator's."""
        return (self.data_dir / "secrets" / "cli_token").read_text().strip()

    @property
    def authority(self) -> Path:
        """The certificate of the platform's CA."""
        return self.data_dir / "tls" / "ca.pem"

    def trust(self) -> ssl.SSLContext | bool:
        """Return the value of httpx's `verify` that trusts the platform's certificates."""
        return ssl.create_default_context(cafile=self.authority) if self.tls else True

    def token_of(self, user: str) -> str:
        """Create a personal access token for the user, as the administrator."""
        done = self.aitne("admin", "token", "create", "--user", user, "--name", "test", "--json")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["token"])

    def login_link(self, token: str | None = None) -> str:
        """Create a one-time login link of the token's owner; None: the first administrator."""
        answer = httpx.post(
            f"{self.url}/api/v1/auth/login-links",
            headers={"Authorization": f"Bearer {token or self.token}"},
            trust_env=False,
            verify=self.trust(),
        )
        answer.raise_for_status()
        return str(answer.json()["url"])

    def aitne(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command against this platform, as the person who started it; ``env`` is added."""
        return subprocess.run(
            [*self.command, *arguments],
            env={**self.env, **(env or {})},
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self) -> str:
        """Run `aitne up --detach`; return its output."""
        where = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        done = self.aitne("up", "--detach", *where, timeout_s=240)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout + done.stderr

    def start_in_foreground(self) -> subprocess.Popen[bytes]:
        """Run `aitne up` as a service manager does; return the process when the platform is ready."""
        where = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        command = subprocess.Popen(
            [*self.command, "up", *where], env=self.env, stdin=subprocess.DEVNULL
        )
        eventually("the platform is ready", lambda: self.ready() or command.poll() is not None)
        assert command.poll() is None, self.logs()
        return command

    def stop(self, *, keep_jobs: bool = False) -> None:
        """Stop the platform by `aitne down`."""
        options = ["--keep-jobs"] if keep_jobs else []
        done = self.aitne("down", "--data-dir", str(self.data_dir), *options)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    def pids(self) -> dict[str, int]:
        """Return the ids of the running processes by their names."""
        status = platform_control.get_status(self.data_dir)
        return {} if status is None else {one["name"]: one["pid"] for one in status["processes"]}

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL; ``supervisor`` is one too."""
        status = platform_control.get_status(self.data_dir)
        assert status is not None, "the platform does not run"
        pids = {"supervisor": status["supervisor_pid"]} | self.pids()
        os.kill(pids[name], signal.SIGKILL)

    def ready(self) -> bool:
        """Return whether every process runs and the API answers `/readyz`."""
        status = platform_control.get_status(self.data_dir)
        if status is None or status["state"] != "ready":
            return False
        try:
            ready = httpx.get(f"{self.url}/readyz", trust_env=False, verify=self.trust())
            return ready.status_code == 200
        except httpx.HTTPError:
            return False

    def logs(self) -> str:
        """Return the ends of all logs."""
        logs = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-2_000:]}" for log in logs)


@contextmanager
def run_platform(platform: RunningPlatform) -> Iterator[RunningPlatform]:
    """Start a platform for the block, and stop it at the end however far it came; skip where the
    environments cannot be had."""
    environments_or_skip()
    try:
        platform.start()
        yield platform
    finally:
        platform.stop()


SOFTWARE = Path("/var/cache/aitne/software")
"""The software of the nodes, made once for all clusters of all tests and readable by all accounts."""


def on_cluster(
    root: Path, cluster: DevCluster, config: str = "", software: Path = SOFTWARE
) -> RunningPlatform:
    """Return a platform whose jobs run on a Slurm cluster as their users; it is not started yet.

    ``config`` is added to its settings. ``software`` is the folder of the nodes' software, which nodes
    with a root file system of their own must see too.
    """
    lines = ['scheduler = "slurm"', "[slurm]", f'dev_cluster = "{cluster.name}"']
    return RunningPlatform(root, "\n".join([*lines, f'software_dir = "{software}"', config]))


def on_interleaved_nodes(root: Path, local: str = "") -> RunningPlatform:
    """Return a platform whose four nodes are this machine; it is not started yet.

    The names of the nodes alternate between two leaf switches. ``local`` is added to the settings
    of the local scheduler.
    """
    (root / "topology.conf").write_text(
        "SwitchName=a Nodes=node01,node03\nSwitchName=b Nodes=node02,node04\n"
        "SwitchName=top Switches=a,b\n"
    )
    network = f'[topology]\nfile = "{root}/topology.conf"\n'
    return RunningPlatform(root, f"[local]\nnodes = 4\n{local}\n{network}")
