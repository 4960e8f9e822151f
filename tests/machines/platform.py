"""Aitne on the machines: the broker as root and the platform as a system user, on the portal under systemd.

What nodes need of it lies in ``/srv/aitne``, which they all see; its own data on the portal's disk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from aitne.client import Client
from tests.machines import software
from tests.machines.machine import MachineError
from tests.machines.slurm import ACCOUNTS, OPERATOR, REST_PORT, SYSTEM_USER, SlurmCluster, start

PORT = 8000
SOFTWARE_DIR = "/srv/aitne/software"
DATA_DIR = "/var/lib/aitne"
BROKER_SOCKET = "/run/aitne/broker.sock"
CONFIG = "/etc/aitne/aitne.toml"
BROKER_CONFIG = "/etc/aitne/broker.toml"
_COMMON_SLURM = f"""\
[slurm]
conf = "/etc/slurm/slurm.conf"
rest_url = "http://127.0.0.1:{REST_PORT}"
software_dir = "{SOFTWARE_DIR}"
"""
AITNE_TOML = (
    """\
cluster = "machines"
bind = "0.0.0.0"
port = {port}
public_url = "http://{address}:{port}"
sessions_url = "http://{address}:{sessions_port}"
scheduler = "{scheduler}"
[broker]
socket = "{socket}"
"""
    + _COMMON_SLURM
)
BROKER_TOML = (
    """\
socket = "{socket}"
peers = ["{user}"]
scheduler = "{scheduler}"
"""
    + _COMMON_SLURM
    + """\
jwt_key = "/etc/slurm/jwt.key"
operator = "{operator}"
"""
)
BROKER_UNIT = f"""\
[Unit]
Description=Aitne's broker
After=network-online.target munge.service
StartLimitIntervalSec=300
StartLimitBurst=3
[Service]
ExecStart={software.VENV}/bin/python -m aitne.broker --config {BROKER_CONFIG}
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
PLATFORM_UNIT = f"""\
[Unit]
Description=Aitne
Wants=aitne-broker.service
After=aitne-broker.service network-online.target
StartLimitIntervalSec=300
StartLimitBurst=3
[Service]
User={SYSTEM_USER}
Environment=XDG_CACHE_HOME={software.CACHE_HOME}
Environment=AITNE_CONFIG={CONFIG}
Environment=AITNE_DATA_DIR={DATA_DIR}
StateDirectory=aitne
StateDirectoryMode=0700
ExecStart={software.VENV}/bin/aitne up
Type=notify
NotifyAccess=all
WatchdogSec=60
Restart=always
TimeoutStopSec=60
[Install]
WantedBy=multi-user.target
"""
READY_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class MachinesPlatform:
    """A platform that runs on the cluster's portal."""

    cluster: SlurmCluster
    url: str

    def ready(self) -> bool:
        """Whether all of it answers.

        Raises:
            MachineError: systemd has given one of its units up.
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

    def token(self, user: str) -> str:
        """A new personal access token."""
        create = ["admin", "token", "create", "--user", user, "--name", "tests", "--json"]
        return str(json.loads(self.aitne(*create))["token"])

    def client(self, user: str) -> Client:
        """What a user's own program would use, from here: this machine is in the portal's network."""
        return Client(self.url, self.token(user))

    def logs(self) -> str:
        """The ends of all logs, for a test that fails."""
        portal = self.cluster.portal
        journal = ["journalctl", "--no-pager", "-n40", "-u", "aitne", "-u", "aitne-broker"]
        files = portal.run(["find", f"{DATA_DIR}/logs", "-name", "*.log"], check=False)
        looks = [journal, *(["tail", "-n25", log] for log in files.stdout.split())]
        said = [portal.run(look, check=False).stdout for look in looks]
        return "\n".join(
            f"== {' '.join(look)}\n{text}" for look, text in zip(looks, said, strict=True)
        )


def set_up(cluster: SlurmCluster, *, scheduler: str = "slurm") -> MachinesPlatform:
    """Install and start broker and platform; portal accounts alice and bob are there afterwards.

    Raises:
        MachineError: it does not start; the message has the logs.
    """
    _place_software(cluster)
    portal = cluster.portal
    values = {
        "address": portal.address,
        "port": PORT,
        "sessions_port": PORT + 1,
        "scheduler": scheduler,
        "socket": BROKER_SOCKET,
        "user": SYSTEM_USER,
        "operator": OPERATOR,
    }
    portal.put(CONFIG, AITNE_TOML.format(**values))
    portal.put(BROKER_CONFIG, BROKER_TOML.format(**values), mode=0o600)
    portal.put("/etc/systemd/system/aitne-broker.service", BROKER_UNIT)
    portal.put("/etc/systemd/system/aitne.service", PLATFORM_UNIT)
    portal.run(["systemctl", "daemon-reload"])
    platform = MachinesPlatform(cluster, f"http://{portal.address}:{PORT}")
    start(portal, "aitne-broker.service")
    start(portal, "aitne.service")
    try:
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
    # The session environment takes a minute to make; the platform finds that somebody did it already.
    made = fleet.software / Path(software.NODE_SOFTWARE).name
    for env in made.glob("session-*"):
        (nodes / env.name).symlink_to(f"{software.NODE_SOFTWARE}/{env.name}")
    cluster.portal.run(["chown", SYSTEM_USER, SOFTWARE_DIR])
