"""A whole platform, its command line and OpenSSH's own programs: into jobs here, and into alice's on Slurm."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from aitne.adapters.schedulers._local.procfs import list_process_ids
from aitne.client import Client
from aitne_devcluster.processes import wait_until
from tests.support import realtime
from tests.support.platform import AITNE, RunningPlatform
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
]

JOB = {
    "type": "job",
    "commands": ["echo up; sleep 900"],
    "env": {"OF_THE_JOB": "yes"},
    "resources": {"cpu": 1, "memory": "256M"},
    "max_duration": "20m",
}


class Person:
    """A user at a computer with a home folder, the `aitne` command and OpenSSH."""

    def __init__(self, platform: RunningPlatform, token: str, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.platform = platform
        self.home = home
        self.client = Client(platform.url, token)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AITNE_")},
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_STATE_HOME": str(home / ".state"),
            "AITNE_URL": platform.url,
            "AITNE_TOKEN": token,
        }

    def run(
        self, *argv: str, stdin: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the user to its end."""
        done = subprocess.run(
            argv, input=stdin, env=self.env, cwd=self.home, capture_output=True, timeout=60
        )
        assert not check or done.returncode == 0, (argv, done.stderr, self.platform.logs())
        return done

    def aitne(self, *argv: str, **options: object) -> subprocess.CompletedProcess[bytes]:
        """Run the `aitne` command."""
        return self.run(str(AITNE), *argv, **options)  # type: ignore[arg-type]

    def ssh(
        self, program: str, *argv: str, **options: object
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program of OpenSSH with the user's configuration."""
        config = str(self.home / ".ssh" / "config")
        return self.run(program, "-F", config, *argv, **options)  # type: ignore[arg-type]

    def start(self, name: str) -> str:
        """Start a job of the user and wait until it runs; return its id."""
        job = self.client.jobs.create({**JOB, "name": name})
        assert wait_until(
            lambda: b"up" in b"".join(self.client.jobs.logs(job.id)), 60, poll_s=0.2
        ), self.client.jobs.get(job.id).raw
        assert wait_until(lambda: self.client.jobs.get(job.id).state == "RUNNING", 30, poll_s=0.2)
        return job.id


@pytest.fixture(scope="module")
def needs_ssh() -> None:
    if shutil.which("sshd", path="/usr/sbin:/usr/bin") is None:
        lacking("ssh", "OpenSSH's server is not installed: apt-get install openssh-server")


@pytest.fixture(scope="module")
def here(
    separate_platform: RunningPlatform, needs_ssh: None, tmp_path_factory: pytest.TempPathFactory
) -> Person:
    return Person(
        separate_platform, separate_platform.token, tmp_path_factory.mktemp("person") / "home"
    )


@pytest.fixture(scope="module")
def alice(
    separate_slurm_platform: RunningPlatform,
    needs_ssh: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Person:
    token = separate_slurm_platform.token_of("alice")
    return Person(separate_slurm_platform, token, tmp_path_factory.mktemp("alice") / "home")


@pytest.fixture(params=["here", "alice"])
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    found: Person = request.getfixturevalue(request.param)
    found.aitne("ssh-config", "--write", "--yes")
    yield found
    for job in found.client.jobs.list(states=["RUNNING"]):
        found.client.jobs.cancel(job.id)
    assert wait_until(lambda: not [*found.client.jobs.list(states=["RUNNING"])], 60, poll_s=0.2)


def left(mark: str) -> list[int]:
    """Return the `sleep` processes with this word in their command line."""
    found = []
    for pid in list_process_ids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and mark.encode() in words:
            found.append(pid)
    return found


def test_a_program_beside_a_job(person: Person) -> None:
    job = person.start("beside")
    done = person.aitne(
        *("attach", "beside", "--", "sh", "-c", 'echo "$AITNE_JOB_ID $OF_THE_JOB"; cat; exit 9'),
        stdin=b"\0\xfftyped",
        check=False,
    )
    assert done.returncode == 9, done.stderr
    assert done.stdout == f"{job} yes\n".encode() + b"\0\xfftyped"
    with person.client.jobs.attach(job, ["sh", "-c", "head -c 3000000 /dev/zero"]) as terminal:
        assert sum(len(data) for _, data in terminal.read()) == 3_000_000
    assert terminal.exit_code == 0


def test_openssh_reaches_a_job_by_its_name(person: Person) -> None:
    job = person.start("Named-Job")
    host = "Named-Job.aitne"
    done = person.ssh("ssh", host, 'echo "$AITNE_JOB_ID $OF_THE_JOB"; id -un; exit 5', check=False)
    assert done.returncode == 5, done.stderr
    account = person.client.jobs.ssh_account()
    assert done.stdout.decode().split() == [job, "yes", account]
    assert done.stderr == b""

    sent = person.home / "sent"
    sent.write_bytes(os.urandom(3 << 20))
    digest = hashlib.sha256(sent.read_bytes()).hexdigest()
    there = f"{getpwnam(account).pw_dir}/aitne-sent"
    try:
        person.ssh("scp", "-q", str(sent), f"{host}:{there}")
        assert person.ssh("ssh", host, f"sha256sum {there}").stdout.decode().split()[0] == digest
        assert Path(there).owner() == account
        back = person.home / "back"
        config = person.home / ".ssh" / "config"
        person.run("rsync", "-e", f"ssh -F {config}", f"{host}:{there}", str(back))
        assert hashlib.sha256(back.read_bytes()).hexdigest() == digest
        listed = person.ssh("sftp", "-q", "-b", "-", host, stdin=f"ls -l {there}\n".encode())
        assert b"3145728" in listed.stdout
    finally:
        Path(there).unlink(missing_ok=True)
    folder = Path(folder_of(person, job))
    assert wait_until(lambda: not [*folder.glob("ssh-*/")], 20, poll_s=0.2)


def folder_of(person: Person, job: str) -> str:
    script = person.client.jobs.script(job)
    line = next(line for line in script.splitlines() if line.startswith("export AITNE_JOB_DIR="))
    return line.partition("=")[2].strip("'")


def test_a_port_of_the_job_is_reached(person: Person) -> None:
    person.start("served")
    with socket.create_server(("127.0.0.1", 0)) as server:
        inside, ours = server.getsockname()[1], reserve_ports()
        config = str(person.home / ".ssh" / "config")
        forward = subprocess.Popen(
            ["ssh", "-F", config, "-N", "-L", f"{ours}:127.0.0.1:{inside}", "served.aitne"],
            env=person.env,
            stdin=subprocess.DEVNULL,
        )
        try:

            def connected() -> bool:
                try:
                    socket.create_connection(("127.0.0.1", ours), 1).close()
                except OSError:
                    return False
                return True

            assert wait_until(connected, 30, poll_s=0.2)
            server.settimeout(20)
            connection, address = server.accept()
            connection.close()
            assert address[0] == "127.0.0.1"
        finally:
            forward.terminate()
            forward.wait(20)


def test_wrong_user_key_and_wrong_host_key_are_refused(person: Person) -> None:
    person.start("guarded")
    stranger = person.home / "stranger"
    stranger.unlink(missing_ok=True)
    person.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger))
    options = ["-o", f"IdentityFile={stranger}", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    config = (person.home / ".ssh" / "config").read_text()
    own = Path(config.split()[1]).read_text()
    other = person.home / "other-config"
    lines = [line for line in own.splitlines() if "IdentityFile" not in line]
    other.write_text("\n".join(lines) + "\n")
    done = person.run("ssh", "-F", str(other), *options, "guarded.aitne", "true", check=False)
    assert done.returncode == 255
    assert b"Permission denied" in done.stderr
    elsewhere = person.home / "known"
    elsewhere.write_text(f"guarded.aitne {stranger.with_suffix('.pub').read_text()}")
    done = person.ssh(
        "ssh", "-o", f"UserKnownHostsFile={elsewhere}", "guarded.aitne", "true", check=False
    )
    assert done.returncode == 255
    assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_a_killed_api_leaves_no_shell(person: Person) -> None:
    job = person.start("killed")
    marks = [f"7{os.getpid()}1", f"7{os.getpid()}2"]
    config = str(person.home / ".ssh" / "config")
    commands = [
        [str(AITNE), "attach", "killed", "--", "sh", "-c", f"trap '' HUP TERM; sleep {marks[0]}"],
        ["ssh", "-F", config, "killed.aitne", f"setsid nohup sleep {marks[1]} & sleep {marks[1]}"],
    ]
    running = [
        subprocess.Popen(
            argv,
            env=person.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for argv in commands
    ]
    try:
        assert wait_until(lambda: all(left(mark) for mark in marks), 40, poll_s=0.2)
        person.platform.kill("api")
        assert wait_until(lambda: not any(left(mark) for mark in marks), 30, poll_s=0.2)
    finally:
        for process in running:
            process.communicate(timeout=30)
    assert wait_until(person.platform.ready, 60, poll_s=0.5)
    assert person.client.jobs.get(job).state == "RUNNING"
