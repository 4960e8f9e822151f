"""Aitne on the machines: the broker as root and the platform as a system user, on the portal under systemd.

What nodes need of it lies in ``/srv/aitne``, which they all see; its own data on the portal's disk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aitne.client import Client
from tests.machines import software
from tests.machines.machine import MachineError
from tests.machines.slurm import ACCOUNTS, OPERATOR, REST_PORT, SYSTEM_USER, SlurmCluster

PORT = 8000
SOFTWARE_DIR = "/srv/aitne/software"
DATA_DIR = "/var/lib/aitne"
CONFIG = "/etc/aitne/aitne.toml"
ANSWERS = "/root/setup.toml"
ANSWERS_TOML = f"""\
scheduler = "slurm"
cluster = "machines"
public_url = "http://{{address}}:{PORT}"
sessions_url = "http://{{address}}:{PORT + 1}"
bind = "0.0.0.0"
port = {PORT}
programs = "{software.VENV}/bin"
enable = true
[slurm]
conf = "/etc/slurm/slurm.conf"
rest_url = "http://127.0.0.1:{REST_PORT}"
jwt_key = "/etc/slurm/jwt.key"
operator = "{OPERATOR}"
software_dir = "{SOFTWARE_DIR}"
test_user = "alice"
"""
CACHE = f"[Service]\nEnvironment=XDG_CACHE_HOME={software.CACHE_HOME}\n"
"""A drop-in of the unit that names the cache folder with the Hub's environment and the proxy."""
SETUP_WITHIN_S = 600
READY_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class MachinesPlatform:
    """A platform that runs on the cluster's portal."""

    cluster: SlurmCluster
    url: str

    def ready(self) -> bool:
        """Return whether the platform answers its readiness check.

        Raises:
            MachineError: systemd has given up one of the units.
        """
        portal = self.cluster.portal
        for unit in ("aitne-broker.service", "aitne.service"):
            if portal.run(["systemctl", "is-failed", "--quiet", unit], check=False).returncode == 0:
                raise MachineError(f"{unit} failed.")
        return self.answers()

    def answers(self) -> bool:
        """Return whether the API answers that the platform is ready."""
        asked = ["curl", "-fsS", f"http://127.0.0.1:{PORT}/readyz"]
        return self.cluster.portal.run(asked, check=False).returncode == 0

    def supervisor_pid(self) -> int:
        """Return the process id of the supervisor."""
        return int(json.loads(self.aitne("status", "--json"))["supervisor_pid"])

    def aitne(self, *arguments: str) -> str:
        """Run the command line on the portal as the platform's own account; what it printed.

        Raises:
            MachineError: it failed.
        """
        argv = [f"{software.VENV}/bin/aitne", *arguments]
        env = {"AITNE_CONFIG": CONFIG, "AITNE_DATA_DIR": DATA_DIR}
        return self.cluster.portal.run(argv, user=SYSTEM_USER, env=env).stdout

    def setup(self, *options: str) -> dict[str, Any]:
        """Run ``aitne admin setup`` on the portal as root with the answers there; its JSON document.

        Raises:
            MachineError: it failed.
        """
        argv = [f"{software.VENV}/bin/aitne", "admin", "setup", "--answers", ANSWERS, "--json"]
        ended = self.cluster.portal.run([*argv, *options], timeout_s=SETUP_WITHIN_S)
        document: dict[str, Any] = json.loads(ended.stdout)
        return document

    def token(self, user: str) -> str:
        """Create a personal access token for the user."""
        create = ["admin", "token", "create", "--user", user, "--name", "tests", "--json"]
        return str(json.loads(self.aitne(*create))["token"])

    def client(self, user: str) -> Client:
        """Return an API client with a user's token; this machine is in the portal's network."""
        return Client(self.url, self.token(user))

    def logs(self) -> str:
        """Return the ends of all logs."""
        portal = self.cluster.portal
        journal = ["journalctl", "--no-pager", "-n40", "-u", "aitne", "-u", "aitne-broker"]
        files = portal.run(["find", f"{DATA_DIR}/logs", "-name", "*.log"], check=False)
        looks = [journal, *(["tail", "-n25", log] for log in files.stdout.split())]
        said = [portal.run(look, check=False).stdout for look in looks]
        return "\n".join(
            f"== {' '.join(look)}\n{text}" for look, text in zip(looks, said, strict=True)
        )


def set_up(cluster: SlurmCluster) -> MachinesPlatform:
    """Install broker and platform, and start them with ``aitne admin setup``; portal accounts alice and bob
    are there afterwards.

    Raises:
        MachineError: it does not start; the message has the logs.
    """
    _place_software(cluster)
    portal = cluster.portal
    platform = MachinesPlatform(cluster, f"http://{portal.address}:{PORT}")
    portal.put("/etc/systemd/system/aitne.service.d/cache.conf", CACHE)
    portal.put(ANSWERS, ANSWERS_TOML.format(address=portal.address))
    try:
        platform.setup("--yes")
        cluster.wait(platform.ready, READY_WITHIN_S, "the platform is ready")
    except MachineError as error:
        raise MachineError(f"{error}\n{platform.logs()}") from error
    for user, project in ACCOUNTS.items():
        platform.aitne("admin", "user", "create", user, "--project", project)
    return platform


def _place_software(cluster: SlurmCluster) -> None:
    fleet = cluster.fleet
    software.ensure_software(fleet.base, fleet.software)
    shared = fleet.shared("srv/aitne")
    software.copy_source(shared / Path(software.SOURCE).name)
    nodes = shared / Path(SOFTWARE_DIR).name
    nodes.mkdir()
    # The session environment takes a minute to create; the platform finds a finished one.
    made = fleet.software / Path(software.NODE_SOFTWARE).name
    for env in made.glob("session-*"):
        (nodes / env.name).symlink_to(f"{software.NODE_SOFTWARE}/{env.name}")
