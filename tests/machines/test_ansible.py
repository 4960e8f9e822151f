"""The playbook on bare machines: what it sets up, that it changes nothing twice, and that nodes come and go."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from websockets.sync.client import ClientConnection, connect

from tests.machines.fleet import Fleet
from tests.machines.machine import Machine
from tests.machines.software import CHECKOUT, registries
from tests.support import realtime
from tests.support.ansible import Inventory, program, recap, said
from tests.support.notebook import Notebook
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(3600),
    realtime.MACHINES,
]

PORTAL = "https://aitne.example.org"
SESSIONS = "aitne-sessions.org"
NPMRC = "/etc/npmrc-of-the-tests"
RUN_WITHIN_S = 1500
READY_WITHIN_S = 180
WHERE_AND_WHO = "import getpass, socket; print(socket.gethostname(), getpass.getuser())"


@dataclass(frozen=True)
class Network:
    """The way of a browser to the portal, whose names are not in DNS: TLS and the header Host keep them."""

    address: str
    trusted: ssl.SSLContext

    def browser(self) -> httpx.Client:
        return httpx.Client(
            transport=_Transport(self), follow_redirects=True, timeout=30, trust_env=False
        )

    def websocket(self, url: str, *, origin: str, cookies: str = "") -> ClientConnection:
        return connect(
            url,
            sock=socket.create_connection((self.address, 443), timeout=30),
            ssl=self.trusted,
            origin=origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": cookies},
            open_timeout=30,
            max_size=None,
            proxy=None,
        )


class _Transport(httpx.HTTPTransport):
    def __init__(self, network: Network) -> None:
        # One connection for each request: those to one address would be shared by all names.
        super().__init__(verify=network.trusted, limits=httpx.Limits(max_keepalive_connections=0))
        self._address = network.address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        there = httpx.Request(
            request.method,
            request.url.copy_with(host=self._address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(there)


@dataclass
class Site:
    """Bare machines and their inventory; ``nodes`` are those in it."""

    machines: dict[str, Machine]
    inventory: Inventory
    variables: dict[str, object]
    nodes: tuple[str, ...]

    @property
    def login(self) -> Machine:
        return self.machines["login1"]

    def play(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook for the machines that are in the inventory now."""
        hosts: dict[str, Any] = {
            name: {"ansible_host": self.machines[name].address} for name in ("login1", *self.nodes)
        }
        for name in self.nodes:
            # The machines share the processors of this one.
            hosts[name]["slurm_node_options"] = "CPUs=4 RealMemory=4000"
        only = {"hosts": {"login1": None}}
        nodes = {"hosts": dict.fromkeys(self.nodes)}
        groups = {"portal": only, "controller": only, "nodes": nodes}
        self.inventory.write(
            yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}), self.variables
        )
        return self.inventory.play("site.yml", *options, timeout_s=RUN_WITHIN_S)

    def aitne(self, *words: str) -> str:
        """Run the command line on the portal as the platform's account."""
        env = {"AITNE_CONFIG": "/etc/aitne/aitne.toml", "AITNE_DATA_DIR": "/var/lib/aitne"}
        return self.login.run(["/opt/aitne/bin/aitne", *words], user="aitne", env=env).stdout

    def token(self, user: str) -> str:
        """Return a new token of a user, once the platform has the account from Slurm."""

        def imported() -> bool:
            shown = json.loads(self.aitne("admin", "user", "ls", "--json"))
            return any(each["name"] == user for each in shown)

        eventually(f"{user} has an account", imported, READY_WITHIN_S)
        create = ("admin", "token", "create", "--user", user, "--name", "tests", "--json")
        return str(json.loads(self.aitne(*create))["token"])

    def network(self) -> Network:
        """Return the way to the portal, with the CA that an administrator gives to browsers."""
        ca = self.login.get("/etc/aitne/ca.pem").decode()
        return Network(self.login.address, ssl.create_default_context(cadata=ca))

    def states(self) -> dict[str, str]:
        """Return the nodes that Slurm has, with their states."""
        shown = self.login.run(["sinfo", "--noheader", "--Node", "--format", "%N %T"]).stdout
        return dict(line.split() for line in shown.splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three machines after the first run, and a fourth, ``n3``, that is bare."""
    program("ansible-playbook")
    folder = tmp_path_factory.mktemp("ansible")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*wheel, str(folder), str(CHECKOUT)], check=True)
    environment, files = registries()
    npmrc = environment.pop("NPM_CONFIG_USERCONFIG", None)
    files = {file for file in files if str(file) != npmrc}
    with Fleet() as fleet:
        machines = fleet.up(["login1", "n1", "n2", "n3"], software=False, files=files)
        if npmrc is not None:
            environment["NPM_CONFIG_USERCONFIG"] = NPMRC
            machines[0].put(NPMRC, Path(npmrc).read_text())
        key = folder / "ssh_key"
        shutil.copy(fleet.base.ssh_key, key)
        key.chmod(0o600)
        variables: dict[str, object] = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(key),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o LogLevel=ERROR "
            "-o UserKnownHostsFile=/dev/null -o ConnectTimeout=10",
            "portal_domain": PORTAL.removeprefix("https://"),
            "sessions_domain": SESSIONS,
            "unix_users": [{"name": "alice", "uid": 2001, "account": "vision"}],
            "aitne_wheel": str(next(folder.glob("*.whl"))),
            "aitne_environment": environment,
            # These machines are containers: folders are shared already, clocks and cgroups are not theirs.
            "storage_type": "none",
            "chrony_enabled": False,
            "slurm_cgroup": False,
            "slurm_extra": {"SlurmdParameters": "config_overrides"},
        }
        made = Site(
            {machine.name: machine for machine in machines},
            Inventory(folder / "inventory"),
            variables,
            ("n1", "n2"),
        )
        first = made.play()
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        yield made


def test_user_has_a_notebook_and_a_batch_job_on_nodes_over_https(site: Site) -> None:
    token, network = site.token("alice"), site.network()
    bearer = {"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex}
    size = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "10m"}
    with network.browser() as browser:

        def shown(job: str) -> dict[str, Any]:
            answer = browser.get(f"{PORTAL}/api/v1/jobs/{job}", headers=bearer)
            return dict(answer.raise_for_status().json())

        batch = {"type": "job", "name": "two", "commands": ["srun hostname; srun id -un"]}
        batch |= {"resources": size["resources"] | {"nodes": 2}, "max_duration": "10m"}
        job = browser.post(f"{PORTAL}/api/v1/jobs", json=batch, headers=bearer)
        assert job.status_code == 201, job.text
        start = {"type": "session", "template": "jupyterlab"} | size
        session = browser.post(
            f"{PORTAL}/api/v1/sessions",
            json=start,
            headers=bearer | {"Idempotency-Key": uuid4().hex},
        )
        assert session.status_code == 201, session.text
        ended = eventually(
            "the batch job has ended",
            lambda: (found := shown(job.json()["id"]))["ended_at"] and found,
            READY_WITHIN_S,
        )
        assert ended["state"] == "COMPLETED", ended
        log = browser.get(f"{PORTAL}/api/v1/jobs/{ended['id']}/logs", headers=bearer).text
        assert sorted(log.split()) == ["alice", "alice", "n1", "n2"]
        ready = eventually(
            "the session is ready",
            lambda: (found := shown(session.json()["id"]))["state"] == "READY" and found,
            READY_WITHIN_S,
        )
        path = f"{PORTAL}/api/v1/sessions/{ready['id']}"
        opened = browser.post(f"{path}/open", headers=bearer).raise_for_status().json()
        assert opened["url"].startswith(f"https://alice.{SESSIONS}/")
        with Notebook(PORTAL, token, opened["url"], network) as notebook:
            notebook.start_kernel()
            assert notebook.execute(WHERE_AND_WHO) == f"{ready['nodes'][0]} alice\n"
        browser.post(f"{path}/stop", headers=bearer).raise_for_status()


def test_second_run_and_check_change_nothing(site: Site) -> None:
    for options in ((), ("--check", "--diff")):
        done = site.play(*options)

        assert done.returncode == 0, done.stdout[-6000:]
        counts = recap(done.stdout)
        assert set(counts) == {"login1", "n1", "n2"}
        assert {each["changed"] for each in counts.values()} == {0}, done.stdout


def test_prometheus_scrapes_platform_and_nodes(site: Site) -> None:
    def up() -> bool:
        query = "http://127.0.0.1:9090/api/v1/query?query=up"
        answer = json.loads(site.login.run(["curl", "--silent", query]).stdout)
        found = [(each["metric"]["job"], each["value"][1]) for each in answer["data"]["result"]]
        return ("aitne", "1") in found and found.count(("node", "1")) == 3

    eventually("Prometheus has scraped all", up, READY_WITHIN_S)


def test_node_is_added_after_it_was_away_and_removed_after_its_job(site: Site) -> None:
    n3 = site.machines["n3"]
    site.nodes = ("n1", "n2", "n3")
    n3.cut_cable()
    try:
        away = site.play()
    finally:
        n3.mend_cable()
    assert away.returncode == 4
    counts = recap(away.stdout)
    assert (counts["n3"]["unreachable"], counts["n1"]["failed"]) == (1, 0), said(away)
    assert set(site.states()) == {"n1", "n2"}

    added = site.play()

    assert added.returncode == 0, added.stdout[-6000:]
    assert site.states() == {"n1": "idle", "n2": "idle", "n3": "idle"}
    options = ["--parsable", "--nodelist=n3", "--chdir=/home/alice", "--output=left.log"]
    script = "#!/bin/sh\nsleep 20\necho ended\n"
    job = site.login.run(["sbatch", *options], user="alice", stdin=script).stdout.strip()
    site.nodes = ("n1", "n2")

    removed = site.play("--tags", "slurm")

    assert removed.returncode == 0, removed.stdout[-6000:]
    assert set(site.states()) == {"n1", "n2"}
    ended = ["sacct", "--noheader", "--allocations", "--parsable2", "-j", job, "-o", "State"]
    assert site.login.run(ended).stdout.strip() == "COMPLETED"
    assert site.login.get("/home/alice/left.log") == b"ended\n"
