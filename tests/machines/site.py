"""A site that the playbook has set up on machines: runs of the playbook, and the ways of users and administrators to it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import yaml
from websockets.sync.client import ClientConnection, connect

from tests.machines.fleet import Fleet
from tests.machines.machine import Machine
from tests.machines.software import CHECKOUT
from tests.support.ansible import Inventory
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

PORTAL = "https://aitne.example.org"
SESSIONS = "aitne-sessions.org"
NPMRC = "/etc/npmrc-of-the-tests"
RUN_WITHIN_S = 1500
READY_WITHIN_S = 180


def inventory_variables(
    fleet: Fleet, folder: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Build the wheel of the checkout in ``folder``; return the variables of an inventory that installs it on
    machines of ``fleet``, with ``environment`` for pip and npm.
    """
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*wheel, str(folder), str(CHECKOUT), str(CHECKOUT / "runtime")], check=True)
    key = folder / "ssh_key"
    shutil.copy(fleet.base.ssh_key, key)
    key.chmod(0o600)
    return {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o LogLevel=ERROR "
        "-o UserKnownHostsFile=/dev/null -o ConnectTimeout=10",
        "portal_domain": PORTAL.removeprefix("https://"),
        "sessions_domain": SESSIONS,
        "unix_users": [{"name": "alice", "uid": 2001, "account": "vision"}],
        "aitne_wheel": str(next(folder.glob("aitne-*.whl"))),
        "aitne_environment": environment,
        # These machines are containers: folders are shared already, clocks and cgroups are not theirs.
        "storage_type": "none",
        "chrony_enabled": False,
        "slurm_cgroup": False,
        "slurm_extra": {"SlurmdParameters": "config_overrides"},
    }


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
    """Machines, of which the playbook sets up those in the groups of the inventory."""

    machines: dict[str, Machine]
    inventory: Inventory
    variables: dict[str, Any]
    groups: dict[str, list[str]]
    """Names of machines by group."""

    @property
    def portal(self) -> Machine:
        return self.machines[self.groups["portal"][0]]

    def play(self, what: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook for the machines that are in the inventory now; log the time as that of ``what``."""
        hosts = {
            name: {"ansible_host": self.machines[name].address}
            for names in self.groups.values()
            for name in names
        }
        for name in self.groups["nodes"]:
            # The machines share the processors of this one.
            hosts[name]["slurm_node_options"] = "CPUs=4 RealMemory=4000"
        groups = {group: {"hosts": dict.fromkeys(names)} for group, names in self.groups.items()}
        self.inventory.write(
            yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}), self.variables
        )
        began = time.monotonic()
        done = self.inventory.play("site.yml", *options, timeout_s=RUN_WITHIN_S)
        took, load = time.monotonic() - began, os.getloadavg()[1]
        log.info("Ansible, %s: %.0f s, load average %.1f.", what, took, load)
        return done

    def aitne(self, *words: str, check: bool = True) -> str:
        """Run the command line on the portal as the platform's account; return its output. With ``check`` it must
        succeed.
        """
        env = {"AITNE_CONFIG": "/etc/aitne/aitne.toml", "AITNE_DATA_DIR": "/var/lib/aitne"}
        argv = ["/opt/aitne/bin/aitne", *words]
        return self.portal.run(argv, user="aitne", env=env, check=check).stdout

    def version(self) -> str:
        """Return the release of the program."""
        return self.aitne("--version").split()[-1]

    def main_process(self) -> int:
        """Return the main process of the platform's unit."""
        shown = ["systemctl", "show", "aitne", "--property=MainPID", "--value"]
        return int(self.portal.run(shown).stdout)

    def upgrade(self, wheel: Path) -> subprocess.CompletedProcess[str]:
        """Run `aitne admin upgrade` on the portal with a wheel and the training runtime's beside it."""
        for each in (wheel, *wheel.parent.glob("aitne_train-*.whl")):
            self.portal.put(f"/root/{each.name}", each.read_bytes())
        options = ["--wheel", f"/root/{wheel.name}", "--yes", "--data-dir", "/var/lib/aitne"]
        env = {"AITNE_CONFIG": "/etc/aitne/aitne.toml", **self.variables["aitne_environment"]}
        argv = ["/opt/aitne/bin/aitne", "admin", "upgrade", *options]
        return self.portal.run(argv, env=env, check=False, timeout_s=900)

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
        ca = self.portal.get("/etc/aitne/ca.pem").decode()
        return Network(self.portal.address, ssl.create_default_context(cadata=ca))

    def states(self) -> dict[str, str]:
        """Return the nodes that Slurm has, with their states."""
        shown = self.portal.run(["sinfo", "--noheader", "--Node", "--format", "%N %T"]).stdout
        return dict(line.split() for line in shown.splitlines())


@dataclass(frozen=True)
class Api:
    """The API of the portal for the user of a token."""

    browser: httpx.Client
    token: str

    def get(self, path: str) -> httpx.Response:
        return self._get(path).raise_for_status()

    def answers(self, path: str) -> bool:
        return self._get(path).is_success

    def _get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.browser.get(f"{PORTAL}/api/v1{path}", headers=headers)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid4().hex}
        answer = self.browser.post(f"{PORTAL}/api/v1{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return dict(answer.json()) if answer.content else {}

    def log(self, job: str) -> str:
        return self.get(f"/jobs/{job}/logs").text

    def wait(self, job: str, state: str) -> dict[str, Any]:
        """Wait until a job is in a state, which it has not passed, and return the job."""

        def there() -> dict[str, Any] | None:
            found = dict(self.get(f"/jobs/{job}").json())
            assert found["state"] == state or not found["ended_at"], found
            return found if found["state"] == state else None

        found = eventually(f"job {job} is {state}", there, READY_WITHIN_S)
        assert found is not None
        return found
