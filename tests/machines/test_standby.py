"""The cold standby of the playbook: the portal's host loses its power, and the commands of the handbook start its second host."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.machines import software
from tests.machines.fleet import Fleet
from tests.machines.machine import Machine
from tests.machines.site import (
    NPMRC,
    PORTAL,
    READY_WITHIN_S,
    Api,
    Network,
    Site,
    inventory_variables,
)
from tests.support import realtime
from tests.support.ansible import Inventory, program, said

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
TIMERS = tuple(f"aitne-{name}.timer" for name in ("backup", "certificates", "doctor"))
UNITS = ("aitne", "aitne-broker", "nginx", *TIMERS)


def commands(heading: str) -> list[str]:
    """The commands of root in the console blocks of the handbook below a heading; the restoration asks nothing."""
    section = HANDBOOK.read_text().partition(f"\n### {heading}\n")[2].partition("\n##")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    lines = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    assert lines, heading
    return [re.sub(r"(admin restore)", r"\1 --yes", line.removeprefix("# ")) for line in lines]


@dataclass
class Hosts(Site):
    """Two machines: ``login1``, at first the portal, and ``s1``, at first its standby, with Slurm."""

    private_key: str

    @property
    def standby(self) -> Machine:
        return self.machines[self.groups["standby"][0]]

    def assign(self, portal: str, standby: str) -> None:
        """Name the portal and the standby in the inventory."""
        self.groups |= {"portal": [portal], "standby": [standby]}

    def active(self, name: str) -> set[str]:
        """Return which of the platform's units run on a machine."""
        asked = ["systemctl", "is-active", *UNITS]
        states = self.machines[name].run(asked, check=False).stdout.split()
        return {unit for unit, state in zip(UNITS, states, strict=True) if state == "active"}

    def copies(self) -> list[str]:
        """Return the names of the backups on the standby."""
        return self.standby.run(["ls", COPIES]).stdout.split()

    def back_up(self) -> str:
        """Make a backup on the portal with its unit; return its name on the standby."""
        before = self.copies()
        self.portal.run(["systemctl", "start", "aitne-backup"], timeout_s=300)
        (name,) = set(self.copies()) - set(before)
        return name

    def change_over(self) -> None:
        """Run the commands of the handbook on the standby, which is the portal then."""
        machine = self.standby
        machine.put(KEY, self.private_key, mode=0o600)
        for command in commands("Change over"):
            machine.run(["bash", "-c", command], timeout_s=READY_WITHIN_S)
        assert machine.run(["test", "-e", KEY], check=False).returncode != 0
        self.assign(self.standby.name, self.portal.name)


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
            {"portal": ["login1"], "standby": ["s1"], "controller": ["s1"], "nodes": ["s1"]},
            key.read_text(),
        )
        first = site.play("first run with a standby")
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        yield site


def log_in(network: Network) -> None:
    """Log alice in with her password."""
    with network.browser() as browser:
        body = {"username": "alice", "password": PASSWORD}
        origin = {"Origin": PORTAL}
        answer = browser.post(f"{PORTAL}/api/v1/auth/login", json=body, headers=origin)
        assert answer.status_code == 200, answer.text
        assert browser.get(f"{PORTAL}/api/v1/me").json()["user"]["name"] == "alice"


def set_password(hosts: Hosts) -> None:
    """Give alice a password by the link of an administrator."""
    link = hosts.aitne("admin", "user", "reset-link", "alice").strip().partition("#token=")[2]
    with hosts.network().browser() as browser:
        body = {"token": link, "password": PASSWORD}
        browser.post(f"{PORTAL}/api/v1/auth/reset", json=body).raise_for_status()


def job(command: str) -> dict[str, object]:
    """Return the job file of a command."""
    size = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "30m"}
    return {"type": "job", "name": "one", "commands": [command], **size}


def test_platform_moves_to_the_standby_and_back(
    hosts: Hosts, record_property: Callable[[str, object], None]
) -> None:
    first, second = hosts.machines["login1"], hosts.machines["s1"]
    assert hosts.active("login1") == set(UNITS)
    assert hosts.active("s1") == set()
    token, network = hosts.token("alice"), hosts.network()
    set_password(hosts)
    with ExitStack() as ends:
        api = Api(ends.enter_context(network.browser()), token)
        ended = api.post("/jobs", job("hostname"))["id"]
        api.wait(ended, "COMPLETED")
        running = api.post("/jobs", job("until [ -e ~/end ]; do sleep 1; done"))["id"]
        api.wait(running, "RUNNING")
        copy = hosts.back_up()
        assert second.get(f"{COPIES}/{copy}") == first.get(f"{COPIES}/{copy}")

        first.power_cut()
        began = time.monotonic()
        hosts.change_over()
        network = replace(network, address=second.address)
        log_in(network)

        record_property("time_to_recover_s", round(time.monotonic() - began, 1))
        api = Api(ends.enter_context(network.browser()), token)
        api.wait(ended, "COMPLETED")
        api.wait(running, "RUNNING")
        second.run(["touch", "/home/alice/end"], user="alice")
        api.wait(running, "COMPLETED")
        hosts.assign("login1", "s1")
        refused = hosts.play("a portal that has moved", "--tags", PLATFORM_TAGS)
        assert refused.returncode != 0
        assert "The platform runs on s1, the standby of the inventory." in said(refused)

        for command in commands("Way back"):
            if "--root=/mnt" not in command:
                continue
            subprocess.run(shlex.split(command.replace("/mnt", str(first.root))), check=True)
        first.boot()
        first.wait_ready()
        hosts.assign("s1", "login1")
        done = hosts.play("the standby as portal", "--tags", PLATFORM_TAGS)
        assert done.returncode == 0, done.stdout[-6000:]
        assert (hosts.active("s1"), hosts.active("login1")) == (set(UNITS), set())
        after = api.post("/jobs", job("hostname"))["id"]
        api.wait(after, "COMPLETED")
        arrived = hosts.copies()
        for command in commands("Way back"):
            if "--root=/mnt" not in command:
                second.run(["bash", "-c", command], timeout_s=READY_WITHIN_S)
        assert set(hosts.copies()) > set(arrived)
        assert hosts.active("s1") == set()

        hosts.change_over()
        network = replace(network, address=first.address)
        log_in(network)
        api = Api(ends.enter_context(network.browser()), token)
        for each in (ended, running, after):
            api.wait(each, "COMPLETED")
