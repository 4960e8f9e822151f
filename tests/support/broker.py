"""A broker of root's with Unix users of its own, for tests that act as them."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from aitne.core.broker.protocol_versions import PROTOCOL
from aitne.core.models.resources import Resources
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from tests.support.slurm import root_or_skip

REPOSITORY = Path(__file__).resolve().parents[2]
USERS = ("anna", "ben")
_RUNS = count(1)


def processes_of(uid: int) -> list[int]:
    """Return the ids of an account's running processes; zombies are left out."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            status = (each / "status").read_text() if each.name.isdecimal() else ""
        except OSError:
            continue
        if f"Uid:\t{uid}\t" in status and "State:\tZ" not in status:
            found.append(int(each.name))
    return found


@contextmanager
def unix_users() -> Iterator[dict[str, str]]:
    """Create the accounts of anna and ben during the block; yield the account of each user."""
    root_or_skip()
    run = f"{os.getpid()}-{next(_RUNS)}"
    names = {user: f"aitne-{user}-{run}" for user in USERS}
    try:
        for name in names.values():
            subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
        yield names
    finally:
        for name in names.values():
            remove_account(name)


def remove_account(name: str) -> None:
    """Delete an account after its last process has ended, and after 30 s by force."""
    until = time.monotonic() + 30
    force: list[str] = []
    while subprocess.run(["userdel", *force, name], stderr=subprocess.PIPE).returncode == 8:
        force = [] if time.monotonic() < until else ["--force"]
        time.sleep(0.1)


def skip_if_code_is_private() -> None:
    """Skip the test where other accounts may not read this checkout, as in a home with mode 0700."""
    for path in (REPOSITORY, *REPOSITORY.parents):
        if not path.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"other accounts may not read the code below {path}")


def as_uid(uid: int, what: Callable[[], object], *, gid: int | None = None) -> Any:
    """Call ``what`` in a child with this uid, in the account's own group unless ``gid`` names another.

    Returns what it returned, as JSON carries it.
    """
    group = pwd.getpwuid(uid).pw_gid if gid is None else gid
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(uid, uid, uid)
            os.write(write, json.dumps(what()).encode())
            code = 0
        except BaseException:  # noqa: BLE001 - the child must never come back into the tests
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child of uid {uid} failed"
    return json.loads(text)


class BrokerBench:
    """One broker process, its folders, and how a platform of root's is set up for it."""

    def __init__(self, users: dict[str, str], scheduler: str = "fake") -> None:
        self.users = users
        self.scheduler_name = scheduler
        self.root = Path(tempfile.mkdtemp(prefix="aitne-broker-", dir="/tmp"))
        self.root.chmod(0o755)
        self.socket = self.root / "run" / "broker.sock"
        self.audit = self.root / "log" / "broker.jsonl"
        self.config = self.root / "broker.toml"
        self.jobs = {}
        for user, name in users.items():
            folder = self.root / "home" / name
            folder.mkdir(parents=True)
            os.chown(folder, self.uid(user), self.gid(user))
            folder.chmod(0o700)
            self.jobs[user] = folder / "jobs"
        self.pattern = f"{self.root}/home/{{user}}/jobs"
        self.write_config()
        self.process: subprocess.Popen[bytes] | None = None

    def uid(self, user: str) -> int:
        """Return the uid of the user's account."""
        return pwd.getpwnam(self.users[user]).pw_uid

    def gid(self, user: str) -> int:
        """Return the account's own group; its number is not always that of the account."""
        return pwd.getpwnam(self.users[user]).pw_gid

    def write_config(self, *, peers: str = "[0]", top: str = "", more: str = "") -> None:
        """Write the broker's configuration file."""
        self.config.write_text(
            f'socket = "{self.socket}"\naudit = "{self.audit}"\npeers = {peers}\n'
            f'scheduler = "{self.scheduler_name}"\nmax_duration = "1d"\n{top}'
            f'[slurm]\njobs_dir = "{self.pattern}"\nextra = ["--mail-type"]\n{more}'
        )

    def start(self, module: str = "tests.support.fake_broker") -> None:
        """Start it and wait until it serves."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--config", str(self.config)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        until = time.monotonic() + 30
        while not self.socket.exists():
            assert self.process.poll() is None, "the broker ended"
            assert time.monotonic() < until, "the broker does not serve"
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def stop(self) -> None:
        """Terminate the broker and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(timeout=20)
        shutil.rmtree(self.root, ignore_errors=True)

    def settings(self) -> Settings:
        """Return the platform's settings for this broker."""
        return load_settings(
            self.root / "platform",
            scheduler=self.scheduler_name,
            broker={"socket": self.socket},
            slurm={"jobs_dir": self.pattern},
        )

    def scheduler(self) -> BrokerScheduler:
        """Return the platform's client of the broker for the scheduler."""
        return BrokerScheduler(self.settings())

    def files(self) -> BrokerFiles:
        """Return the platform's client of the broker for files."""
        return BrokerFiles(self.settings())

    def place(self, user: str, job_id: UUID, attempt: int = 1) -> JobLocation:
        """Return the location of a user's job."""
        folder = str(self.jobs[user] / str(job_id))
        return JobLocation(job_id=job_id, attempt=attempt, folder=folder, account=self.users[user])

    def request(self, user: str = "anna", **changes: Any) -> SubmitRequest:
        """Return a small job of the user; `changes` replace its fields."""
        job_id = changes.setdefault("job_id", uuid4())
        facts: dict[str, Any] = {
            "attempt": 1,
            "owner": user,
            "account": self.users[user],
            "project": "engines",
            "name": "test",
            "script": "#!/bin/bash\ntrue\n",
            "files": {"agent.json": b"{}", "token": b"\xff\x00secret"},
            "job_dir": str(self.jobs[user] / str(job_id) / "1"),
            "resources": Resources(),
            "time_limit_s": 600,
        }
        return SubmitRequest(**(facts | changes))

    def audited(self, **wanted: object) -> list[dict[str, Any]]:
        """Return the lines of the audit log that have these values."""
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [line for line in lines if wanted.items() <= line.items()]

    async def lines(self, *sent: bytes, hello: bool = True) -> list[dict[str, Any]]:
        """Send raw lines over a connection of its own; all that the broker says before it hangs up."""
        reader, writer = await asyncio.open_unix_connection(self.socket)
        greeting = json.dumps({"protocol": PROTOCOL, "release": "test"}).encode() + b"\n"
        try:
            writer.write((greeting if hello else b"") + b"".join(sent))
            writer.write_eof()
            return [json.loads(line) async for line in reader]
        finally:
            writer.close()


@contextmanager
def broker_on(cluster: DevCluster) -> Iterator[BrokerBench]:
    """Run a broker on a Slurm cluster during the block; anna is alice there, and ben is bob."""
    bench = BrokerBench({"anna": "alice", "ben": "bob"}, scheduler="slurm_cli")
    prefix = json.dumps(list(cluster.command_prefix))
    bench.write_config(
        more=f'conf = "{cluster.slurm_conf}"\n'
        f'command_prefix = {prefix}\noperator = "{cluster.operator}"\n'
    )
    bench.start("aitne.broker")
    try:
        yield bench
    finally:
        bench.stop()
