"""The cold standby of the playbook: the portal's host loses its power, and the commands of the handbook start its second host."""

from __future__ import annotations

import json
import re
import shlex
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.machines import software
from tests.machines.fleet import Fleet
from tests.machines.machine import Machine
from tests.machines.site import (
    NPMRC,
    PORTAL,
    READY_WITHIN_S,
    RUN_WITHIN_S,
    Network,
    inventory_variables,
)
from tests.support import realtime
from tests.support.ansible import Inventory, program, said
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long(third=3),
    pytest.mark.timeout(3600),
    realtime.MACHINES,
]

HANDBOOK = software.CHECKOUT / "docs" / "handbook" / "recover.md"
KEY = "/root/aitne-backup-key"
COPIES = "/var/backups/aitne"
PASSWORD = "a password that outlives its host"
PLATFORM_TAGS = "aitne,tls,reverse_proxy,standby"
UNITS = ("aitne", "aitne-broker", "nginx", "aitne-backup.timer", "aitne-certificates.timer")


def commands(heading: str) -> list[str]:
    """The commands of root in the console blocks of the handbook below a heading; the restoration asks nothing."""
    section = HANDBOOK.read_text().partition(f"\n### {heading}\n")[2].partition("\n##")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    lines = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    assert lines, heading
    return [re.sub(r"(admin restore)", r"\1 --yes", line.removeprefix("# ")) for line in lines]


@dataclass
class Hosts:
    """Two machines: ``login1``, at first the portal, and ``s1``, at first its standby, with Slurm."""

    machines: dict[str, Machine]
    inventory: Inventory
    variables: dict[str, object]
    private_key: str
    portal: str = "login1"
    standby: str = "s1"

    def play(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook with the portal and the standby as they are now."""
        hosts: dict[str, Any] = {
            name: {"ansible_host": machine.address} for name, machine in self.machines.items()
        }
        # The machines share the processors of this one.
        hosts["s1"]["slurm_node_options"] = "CPUs=4 RealMemory=4000"
        members = {
            "portal": self.portal,
            "standby": self.standby,
            "controller": "s1",
            "nodes": "s1",
        }
        groups = {group: {"hosts": {name: None}} for group, name in members.items()}
        self.inventory.write(
            yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}), self.variables
        )
        return self.inventory.play("site.yml", *options, timeout_s=RUN_WITHIN_S)

    def aitne(self, *words: str) -> str:
        """Run the command line on the portal as the platform's account."""
        env = {"AITNE_CONFIG": "/etc/aitne/aitne.toml", "AITNE_DATA_DIR": "/var/lib/aitne"}
        portal = self.machines[self.portal]
        return portal.run(["/opt/aitne/bin/aitne", *words], user="aitne", env=env).stdout

    def network(self) -> Network:
        """Return the way to the portal, with the CA that an administrator gives to browsers."""
        portal = self.machines[self.portal]
        ca = portal.get("/etc/aitne/ca.pem").decode()
        return Network(portal.address, ssl.create_default_context(cadata=ca))

    def active(self, name: str) -> set[str]:
        """Return which of the platform's units run on a machine."""
        asked = ["systemctl", "is-active", *UNITS]
        states = self.machines[name].run(asked, check=False).stdout.split()
        return {unit for unit, state in zip(UNITS, states, strict=True) if state == "active"}

    def copies(self) -> list[str]:
        """Return the names of the backups on the standby."""
        return self.machines[self.standby].run(["ls", COPIES]).stdout.split()

    def back_up(self) -> str:
        """Make a backup on the portal with its unit; return its name on the standby."""
        before = self.copies()
        self.machines[self.portal].run(["systemctl", "start", "aitne-backup"], timeout_s=300)
        (name,) = set(self.copies()) - set(before)
        return name

    def change_over(self) -> None:
        """Run the commands of the handbook on the standby, which is the portal then."""
        machine = self.machines[self.standby]
        machine.put(KEY, self.private_key, mode=0o600)
        for command in commands("Change over"):
            machine.run(["bash", "-c", command], timeout_s=READY_WITHIN_S)
        assert machine.run(["test", "-e", KEY], check=False).returncode != 0
        self.portal, self.standby = self.standby, self.portal


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Portal and standby after the first run of the playbook."""
    program("ansible-playbook")
    folder = tmp_path_factory.mktemp("standby")
    key = folder / "aitne-backup-key"
    make_key = [str(Path(sys.executable).parent / "aitne"), "admin", "backup", "key", str(key)]
    subprocess.run(make_key, check=True, capture_output=True)
    environment, files = software.registries()
    npmrc = environment.pop("NPM_CONFIG_USERCONFIG", None)
    files = {file for file in files if str(file) != npmrc}
    with Fleet() as fleet:
        software.ensure_software(fleet.base, fleet.software)
        # Beside the role's own /opt/aitne: the environments, which take minutes to make.
        made = {
            Path(path).relative_to(software.SOFTWARE): path
            for path in (software.CACHE_HOME, software.NODE_SOFTWARE)
        }
        folders = [(fleet.software / name, path) for name, path in made.items()]
        nodes = fleet.shared("srv/aitne") / "software"
        nodes.mkdir()
        for env in (fleet.software / Path(software.NODE_SOFTWARE).name).glob("session-*"):
            (nodes / env.name).symlink_to(f"{software.NODE_SOFTWARE}/{env.name}")
        machines = fleet.up(["login1", "s1"], software=False, files=files, folders=folders)
        if npmrc is not None:
            environment["NPM_CONFIG_USERCONFIG"] = NPMRC
            for machine in machines:
                machine.put(NPMRC, Path(npmrc).read_text())
        site = Hosts(
            {machine.name: machine for machine in machines},
            Inventory(folder / "inventory"),
            inventory_variables(
                fleet, folder, environment | {"XDG_CACHE_HOME": software.CACHE_HOME}
            )
            | {"aitne_backup_recipient": f"{key}.pub", "monitoring_enabled": False},
            key.read_text(),
        )
        first = site.play()
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        yield site


@dataclass
class User:
    """The browser and the token of alice; ``network`` is the way to the portal's name in DNS."""

    network: Network
    token: str

    def log_in(self) -> None:
        """Log in with the password and leave again."""
        with self.network.browser() as browser:
            body = {"username": "alice", "password": PASSWORD}
            origin = {"Origin": PORTAL}
            answer = browser.post(f"{PORTAL}/api/v1/auth/login", json=body, headers=origin)
            assert answer.status_code == 200, answer.text
            assert browser.get(f"{PORTAL}/api/v1/me").json()["user"]["name"] == "alice"

    def submit(self, command: str) -> str:
        """Submit a job; return its ID."""
        job = {"type": "job", "name": "one", "commands": [command], "max_duration": "30m"}
        job |= {"resources": {"cpu": 1, "memory": "1G"}}
        return str(self._ask("POST", "/jobs", job)["id"])

    def wait(self, job: str, state: str) -> None:
        """Wait until a job has a state."""
        eventually(
            f"{job} is {state}",
            lambda: self._ask("GET", f"/jobs/{job}")["state"] == state,
            READY_WITHIN_S,
        )

    def _ask(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid4().hex}
        with self.network.browser() as client:
            answer = client.request(verb, f"{PORTAL}/api/v1{path}", json=body, headers=headers)
        return dict(answer.raise_for_status().json())


def _user(hosts: Hosts) -> User:
    """Give alice a password and a token."""

    def imported() -> bool:
        shown = json.loads(hosts.aitne("admin", "user", "ls", "--json"))
        return any(each["name"] == "alice" for each in shown)

    eventually("alice has an account", imported, READY_WITHIN_S)
    create = ("admin", "token", "create", "--user", "alice", "--name", "tests", "--json")
    token = str(json.loads(hosts.aitne(*create))["token"])
    user = User(hosts.network(), token)
    link = hosts.aitne("admin", "user", "reset-link", "alice").strip().partition("#token=")[2]
    with user.network.browser() as browser:
        body = {"token": link, "password": PASSWORD}
        browser.post(f"{PORTAL}/api/v1/auth/reset", json=body).raise_for_status()
    return user


def test_platform_moves_to_the_standby_and_back(
    hosts: Hosts, record_property: Callable[[str, object], None]
) -> None:
    first, second = hosts.machines["login1"], hosts.machines["s1"]
    assert hosts.active("login1") == set(UNITS)
    assert hosts.active("s1") == set()
    user = _user(hosts)
    ended = user.submit("hostname")
    user.wait(ended, "COMPLETED")
    running = user.submit("until [ -e ~/end ]; do sleep 1; done")
    user.wait(running, "RUNNING")
    copy = hosts.back_up()
    assert second.get(f"{COPIES}/{copy}") == first.get(f"{COPIES}/{copy}")

    first.power_cut()
    began = time.monotonic()
    hosts.change_over()
    user.network = replace(user.network, address=second.address)
    user.log_in()

    record_property("time_to_recover_s", round(time.monotonic() - began, 1))
    user.wait(ended, "COMPLETED")
    user.wait(running, "RUNNING")
    second.run(["touch", "/home/alice/end"], user="alice")
    user.wait(running, "COMPLETED")
    hosts.portal, hosts.standby = "login1", "s1"
    refused = hosts.play("--tags", PLATFORM_TAGS)
    assert refused.returncode != 0
    assert "The platform runs on s1, the standby of the inventory." in said(refused)

    for command in commands("Way back"):
        if "--root=/mnt" not in command:
            continue
        subprocess.run(shlex.split(command.replace("/mnt", str(first.root))), check=True)
    first.boot()
    first.wait_ready()
    hosts.portal, hosts.standby = "s1", "login1"
    done = hosts.play("--tags", PLATFORM_TAGS)
    assert done.returncode == 0, done.stdout[-6000:]
    assert (hosts.active("s1"), hosts.active("login1")) == (set(UNITS), set())
    after = user.submit("hostname")
    user.wait(after, "COMPLETED")
    arrived = hosts.copies()
    for command in commands("Way back"):
        if "--root=/mnt" not in command:
            second.run(["bash", "-c", command], timeout_s=READY_WITHIN_S)
    assert set(hosts.copies()) > set(arrived)
    assert hosts.active("s1") == set()

    hosts.change_over()
    user.network = replace(user.network, address=first.address)
    user.log_in()
    for job in (ended, running, after):
        user.wait(job, "COMPLETED")
