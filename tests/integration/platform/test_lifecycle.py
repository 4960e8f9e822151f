"""A platform that stops, hangs or is killed, and the jobs that it runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aitne.client import Client
from aitne.core.jobs.states import JobState
from aitne.supervisor import platform_control
from tests.support import realtime
from tests.support.documents import typed_lines
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform, run_platform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

SILENT_S = 10.0
"""Longer than any check's patience, and than several rounds of the agent's reports."""


@dataclass(frozen=True)
class Work:
    """A notebook with a kernel that knows ``x``, and a batch job that counts."""

    platform: RunningPlatform
    client: Client
    notebook: Notebook
    session: str
    job: str

    def goes_on(self) -> None:
        """Check that both jobs run, the kernel has kept its memory, and the log still grows."""
        eventually("the platform is ready", self.platform.ready, 30)
        eventually("the route is there", self.notebook.reachable)
        self.notebook.connect()
        assert self.notebook.execute("x") == "42"
        size = self.log_size()
        eventually("the job still writes", lambda: self.log_size() > size)
        states = {str(job.id): job.state for job in self.client.jobs.list()}
        assert states == {self.session: JobState.READY, self.job: JobState.RUNNING}

    def log_size(self) -> int:
        """Return the size of the job's log in bytes."""
        return sum(len(part) for part in self.client.jobs.logs(self.job))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with CPUs for all jobs of this module at once."""
    root = tmp_path_factory.mktemp("platform")
    with run_platform(RunningPlatform(root, "[local]\ncpus = 4\n")) as running:
        yield running


@pytest.fixture(scope="module")
def work(platform: RunningPlatform) -> Iterator[Work]:
    client = Client(url=platform.url, token=platform.token)
    session = client.sessions.wait_ready(client.sessions.start("jupyterlab").id)
    job = client.jobs.create(
        {
            "commands": ["i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"],
            "resources": {"cpu": 1, "memory": "64M"},
        }
    )
    assert session.url is not None
    with Notebook(platform.url, platform.token, session.url) as notebook:
        notebook.start_kernel()
        notebook.execute("x = 42")
        yield Work(platform, client, notebook, str(session.id), str(job.id))


def test_a_second_up_finds_the_first(work: Work) -> None:
    before = work.platform.pids()
    work.platform.start()
    assert work.platform.pids() == before
    work.goes_on()


def test_a_killed_supervisor_leaves_the_work_and_up_takes_it_up_again(work: Work) -> None:
    work.platform.kill("supervisor")
    eventually("it is gone", lambda: platform_control.get_status(work.platform.data_dir) is None)
    status = work.platform.aitne("status", "--json", "--data-dir", str(work.platform.data_dir))
    assert status.returncode == 1
    assert json.loads(status.stdout)["processes"] == []
    command = work.platform.start_in_foreground()
    work.goes_on()
    work.platform.kill("supervisor")
    assert command.wait(30) == 1
    work.platform.start()
    work.goes_on()


EAVESDROP = """
import json, sys, zmq
from ipykernel.connect import get_connection_file
facts = json.load(open(get_connection_file()))
stranger = zmq.Context().socket(zmq.SUB)
stranger.subscribe(b"")
stranger.connect(f"tcp://127.0.0.1:{facts['iopub_port']}")
heard = 0
for _ in range(20):
    print(".", flush=True)
    heard += stranger.poll(50) != 0
stranger.close(0)
print("heard", heard)
"""
"""As a process of another user on the node, which does not have the kernel's connection file."""


def test_output_of_kernel_cannot_be_read_by_who_finds_its_port(work: Work) -> None:
    assert work.notebook.execute(EAVESDROP).split()[-2:] == ["heard", "0"]


def test_down_may_keep_the_work_for_the_next_up(work: Work) -> None:
    work.platform.stop(keep_jobs=True)
    assert platform_control.get_status(work.platform.data_dir) is None
    command = work.platform.start_in_foreground()
    work.goes_on()
    command.send_signal(signal.SIGTERM)
    assert command.wait(30) == 0
    work.platform.start()
    work.goes_on()


def test_a_silent_portal_ends_nothing(work: Work) -> None:
    api = work.platform.pids()["api"]
    os.kill(api, signal.SIGSTOP)
    try:
        until = time.monotonic() + SILENT_S
        while time.monotonic() < until:
            assert work.notebook.execute("x") == "42"
            time.sleep(1)  # the silence itself is what is tested
    finally:
        os.kill(api, signal.SIGCONT)
    work.goes_on()
    assert work.platform.pids()["api"] == api


def drill(command: str, data_dir: Path, backup: str = "", port: int = 0) -> list[str]:
    """Return the arguments of a command of the handbook's drill, such as ``up``, with the values of this test."""
    lines = typed_lines("docs/handbook/backup.md")
    (line,) = (each for each in lines if re.match(rf"aitne {command} .*/tmp/drill\b", each))
    for name, value in {"/tmp/drill": data_dir, "BACKUP": backup, "8200": port}.items():
        line = line.replace(name, str(value))
    return shlex.split(line)[1:]


def test_platform_restored_in_another_directory_finds_its_work(work: Work) -> None:
    platform, old = work.platform, work.platform.data_dir
    gate = platform.home / "gate"

    def waiting(word: str) -> str:
        command = f"while [ ! -e {gate} ]; do sleep 0.1; done; echo {word} >> {gate}.log"
        job = {"commands": [command], "resources": {"cpu": 1, "memory": "32M"}}
        return str(work.client.jobs.create(job).id)

    def aitne(*arguments: str, status: int = 0) -> str:
        done = platform.aitne(*arguments, timeout_s=240)
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    known = waiting("known")
    eventually("it runs", lambda: work.client.jobs.get(known).state == JobState.RUNNING)
    key = platform.home / "aitne-backup-key"
    aitne("admin", "backup", "key", str(key))
    to = ["--to", str(old.with_name("backups")), "--recipient", f"{key}.pub"]
    to += ["--data-dir", str(old)]
    path = json.loads(aitne("admin", "backup", *to, "--yes", "--json"))["path"]
    later = waiting("later")
    eventually("it runs", lambda: work.client.jobs.get(later).state == JobState.RUNNING)
    assert json.loads(aitne("admin", "verify", path, "--json"))["valid"] is True

    new = old.with_name("restored")
    restore = drill("admin restore", new, path)
    assert f"A platform runs in {old}" in aitne(*restore, status=1)
    assert not new.exists()
    platform.kill("supervisor")
    eventually("it is gone", lambda: platform_control.get_status(old) is None)
    aitne(*restore)
    aitne(*drill("up", new, port=platform.port))
    platform.data_dir = new

    eventually("the route is there", work.notebook.reachable)
    work.notebook.connect()
    assert work.notebook.execute("x") == "42"
    size = work.log_size()
    eventually("the job still writes", lambda: work.log_size() > size)
    gate.touch()
    assert work.client.jobs.wait(known).state == JobState.COMPLETED
    # What was accepted after the backup is not known any more, but nothing ends it.
    log = gate.with_name("gate.log")
    eventually("both ended", lambda: sorted(log.read_text().split()) == ["known", "later"])
    assert later not in {str(job.id) for job in work.client.jobs.list()}


def test_labs_shut_down_completes_the_session(work: Work) -> None:
    work.notebook.shut_down()
    eventually("it ends", lambda: work.client.sessions.get(work.session).ended)
    ended = work.client.sessions.get(work.session)
    assert (ended.state, ended.exit_code) == (JobState.COMPLETED, 0)


def test_down_ends_what_is_left(work: Work) -> None:
    assert work.client.jobs.get(work.job).state == JobState.RUNNING
    done = work.platform.aitne(*drill("down", work.platform.data_dir))
    assert done.returncode == 0, done.stderr
    command = work.platform.start_in_foreground()
    assert work.client.jobs.get(work.job).state == JobState.CANCELLED
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == 0
