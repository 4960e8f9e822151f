"""A Slurm cluster for the benchmarks, and a platform on it. Slurm's daemons need root."""

from __future__ import annotations

import os
import pwd
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.ports import reserve_ports

from aitne.core.errors import AitneError
from aitne.core.jobs.states import LIVE
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.settings import BrokerClientSettings, Settings
from aitne.local_system.dev_cluster_records import find_dev_cluster
from aitne.local_system.settings_loader import load_settings
from aitne.supervisor.plan_creation import make_settings_env
from aitne.supervisor.secret_files import ensure_secrets
from aitne_devcluster.cluster import remove_cluster, start_cluster
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running

NAME = "bench"
USER = "alice"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_COMMAND_S = 120.0
_RPC = re.compile(r"^\s*([\w-]+)\s*\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slurm:
    """A cluster whose nodes are drained, so that what is queued stays queued."""

    about: DevCluster

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands find the cluster."""
        return {**self.about.environment, "PATH": _PATH}

    @property
    def account(self) -> str:
        """The Slurm account of ``USER``."""
        return next(user.account for user in self.about.users if user.name == USER)

    def run(self, *argv: str) -> str:
        """Run a Slurm command as root; return its output."""
        return self.run_as(None, argv)

    def run_as(self, user: str | None, argv: tuple[str, ...], stdin: str = "") -> str:
        """Run a command as an account, or as root; return its output."""
        who = None if user is None else pwd.getpwnam(user)
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            env=self.environment,
            cwd="/",
            user=None if who is None else who.pw_uid,
            group=None if who is None else who.pw_gid,
            extra_groups=None if who is None else os.getgrouplist(who.pw_name, who.pw_gid),
            check=False,
        )
        if done.returncode != 0:
            raise BenchmarkError(f"{argv[0]} failed: {done.stderr[-300:]}")
        return done.stdout

    def start_nothing(self) -> None:
        """Take all nodes out of service. A closed partition would be refused by the platform."""
        self.run("scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=benchmark")

    def start_all(self) -> None:
        """Give the nodes back."""
        self.run("scontrol", "update", f"NodeName={','.join(self.about.nodes)}", "State=RESUME")

    def cancel_all(self) -> None:
        """Cancel all jobs of the user and wait until the queue is empty."""
        self.run("scancel", f"--user={USER}")
        eventually("the end of all jobs", lambda: not self.queued(), _COMMAND_S)

    def queued(self) -> list[str]:
        """Return the names of all jobs in the queue."""
        return self.run("squeue", "--noheader", "--format=%j").split()

    def questions(self) -> dict[str, int]:
        """Return the number of messages to slurmctld by type and by user, from `sdiag`."""
        said = self.run("sdiag").partition("statistics by message type")[2]
        return {name: int(count) for name, count in _RPC.findall(said)}


@contextmanager
def cluster(cloud_nodes: int = 0) -> Iterator[Slurm]:
    """Run a cluster during the block; one of this name that runs already is used and kept."""
    name = f"{NAME}-{cloud_nodes}" if cloud_nodes else NAME
    was_there = find_dev_cluster(name) is not None
    try:
        about = start_cluster(name, cloud_nodes=cloud_nodes, progress=_say)
    except AitneError as error:
        raise BenchmarkError(error.message) from error
    slurm = Slurm(about)
    try:
        slurm.start_nothing()
        yield slurm
    finally:
        if was_there:
            slurm.cancel_all()
        else:
            remove_cluster(name, progress=_say)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@dataclass(frozen=True, slots=True)
class OnSlurm:
    """A platform of which the API runs; the controller while it is wanted. Batch jobs need no more."""

    settings: Settings
    env: dict[str, str]
    api_pid: int
    token: str

    def http(self, token: str | None = None) -> Http:
        """Return a connection to the API with this token, by default the administrator's."""
        return Http(self.settings.port, {"Authorization": f"Bearer {token or self.token}"})

    def token_of(self, user: str) -> str:
        """Create a personal access token for the user."""
        body = {"name": "benchmark", "scopes": ["read", "write"], "user": user}
        return str(self.http().post("/api/v1/tokens", body)["token"])

    def count(self, condition: str) -> int:
        """Count the jobs with a condition in the database, without load on the API."""
        ((found,),) = self._read(f"SELECT count(*) FROM jobs WHERE {condition}")
        return int(found)

    def last_event(self) -> int:
        """Return the id of the newest event in the database; 0 without events."""
        ((found,),) = self._read("SELECT coalesce(max(id), 0) FROM events")
        return int(found)

    def submitted(self, after: int) -> list[float]:
        """Return the times of submission in seconds since 1970, from the events after one."""
        rows = self._read(
            "SELECT time FROM events WHERE id > ? AND kind = 'job.state' "
            "AND json_extract(data, '$.previous') = 'SUBMITTING' "
            "AND json_extract(data, '$.state') = 'QUEUED' ORDER BY id",
            after,
        )
        return [datetime.fromisoformat(f"{time}+00:00").timestamp() for (time,) in rows]

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        path = self.settings.data_dir / "aitne.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query, values).fetchall()

    def live(self) -> int:
        """Return the number of jobs that have not ended."""
        return self.count(f"state IN ({', '.join(repr(str(state)) for state in sorted(LIVE))})")

    @contextmanager
    def controller(self) -> Iterator[int]:
        """Run a controller process during the block; yield its process id."""
        argv = [sys.executable, "-m", "aitne.controller", "run"]
        with running(argv, self.settings.data_dir / "controller.log", self.env) as process:
            yield process.pid


@contextmanager
def platform(
    slurm: Slurm,
    folder: Path,
    scheduler: str,
    *,
    poll_interval_s: float | None = None,
    software_dir: Path | None = None,
    limits: Mapping[str, int] | None = None,
) -> Iterator[OnSlurm]:
    """Run the API with the cluster's broker, or with a broker for another adapter."""
    settings = load_settings(
        folder / scheduler,
        scheduler=scheduler,
        port=reserve_ports(4),
        slurm={"dev_cluster": slurm.about.name, "software_dir": software_dir},
        poll_interval_s=poll_interval_s,
        limits=None if limits is None else dict(limits),
    )
    if scheduler == "slurm":
        with api(settings) as found:
            yield found
        return
    with _broker(slurm, folder, scheduler) as socket:
        yours = settings.slurm.model_copy(update={"dev_cluster": None})
        update = {"slurm": yours, "broker": BrokerClientSettings(socket=socket)}
        with api(settings.model_copy(update=update)) as found:
            yield found


@contextmanager
def _broker(slurm: Slurm, folder: Path, scheduler: str) -> Iterator[Path]:
    config, socket = folder / f"{scheduler}.toml", folder / f"{scheduler}.sock"
    text = (slurm.about.root / "broker.toml").read_text()
    mine = {"socket": socket, "audit": folder / f"{scheduler}.jsonl", "scheduler": scheduler}
    for name, value in mine.items():
        text = re.sub(rf"^{name} = .*$", f'{name} = "{value}"', text, flags=re.MULTILINE)
    config.write_text(text)
    config.chmod(0o644)
    argv = [sys.executable, "-m", "aitne.broker", "--config", str(config)]
    with running(argv, folder / f"{scheduler}-broker.log"):
        eventually("the broker's start", socket.exists)
        yield socket


@contextmanager
def api(settings: Settings) -> Iterator[OnSlurm]:
    """Run the API of a platform with these settings."""
    folder = settings.data_dir
    folder.mkdir(mode=0o700)
    ensure_secrets(settings.secrets_dir)
    settings.run_dir.mkdir()
    env = make_settings_env(settings)
    init = [sys.executable, "-m", "aitne.controller", "init"]
    with running(init, folder / "init.log", env) as process:
        if process.wait(60) != 0:
            raise BenchmarkError((folder / "init.log").read_text()[-500:])
    with running([sys.executable, "-m", "aitne.api"], folder / "api.log", env) as process:
        eventually("the API's start", lambda: answers(settings.port))
        token = (settings.secrets_dir / "cli_token").read_text().strip()
        yield OnSlurm(settings, env, process.pid, token)
