"""Defective disks, files and ports: the error names them, and no process is left running."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from aitne.client import Client
from aitne.core.errors import Unavailable
from aitne.core.jobs.states import JobState
from aitne.supervisor import platform_control
from tests.support import realtime
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]


@pytest.fixture(scope="module", autouse=True)
def _environments() -> None:
    environments_or_skip()


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size during the block, so that the test fills no other one."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Leave no room on the file system of ``path``."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"\0" * 65_536):
            pass
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while file.write(b"\0" * 512):
            pass


def refused(platform: RunningPlatform, data_dir: Path | None = None, *options: str) -> str:
    """Return the error of `aitne up` when it cannot start the platform."""
    where = data_dir or platform.data_dir
    up = ["up", "--detach", "--data-dir", str(where), "--port", str(platform.port), *options]
    done = platform.aitne(*up)
    said = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert said.startswith("aitne: ")
    if where.is_dir():
        assert platform_control.get_status(where) is None
    for port in range(platform.port, platform.port + 4):
        with closing(socket.socket()) as line:
            assert line.connect_ex(("127.0.0.1", port)) != 0, f"{port} still answers"
    return said.removeprefix("aitne: ")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform that is not started yet."""
    made = RunningPlatform(tmp_path)
    yield made
    made.stop()


def test_a_full_disk_is_refused(platform: RunningPlatform, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "1m") as small:
        assert "is full: 1 MiB are free, 100 MiB are needed. Make room." in refused(platform, small)
        fill(small / "rest")
        assert "is full. Make room." in refused(platform, small / "data")


def test_a_read_only_disk_is_refused(platform: RunningPlatform, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert "read-only file system. Choose another data directory" in refused(platform, disk)
        assert "read-only file system" in refused(platform, disk / "data")


def test_a_file_is_no_data_directory(platform: RunningPlatform, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refused(platform, file).startswith(f"The data directory {file} is a file.")
    assert "is a file where a folder is needed" in refused(platform, file / "data")


def test_a_damaged_database_is_refused(platform: RunningPlatform) -> None:
    database = platform.data_dir / "aitne.db"
    content = os.urandom(100_000)
    database.write_bytes(content)
    sentence = refused(platform)
    assert sentence.startswith(f"The file {database} is not a database. Stop the platform, move")
    assert "put a backup in their place" in sentence
    assert database.read_bytes() == content


@pytest.mark.parametrize(
    ("offset", "setting"),
    [(0, "--port"), (1, "`sessions_port`"), (2, "`hub_port`"), (3, "`proxy_api_port`")],
)
def test_a_taken_port_is_named(platform: RunningPlatform, offset: int, setting: str) -> None:
    port = platform.port + offset
    where = ["--data-dir", str(platform.data_dir), "--port", str(platform.port)]
    with socket.create_server(("127.0.0.1", port)):
        done = platform.aitne("up", "--detach", *where)
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1" in done.stderr
    assert f"choose another port with {setting}" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = ", "cannot be read"),
        ("colour = 1", "colour is not a setting"),
        ("poll_interval_s = -1", "poll_interval_s = -1: is too small (at least"),
        ('scheduler = "nope"', "There is no scheduler 'nope'; there is: local"),
    ],
)
def test_settings_that_are_wrong_are_named(platform: RunningPlatform, text: str, said: str) -> None:
    (platform.data_dir / "aitne.toml").write_text(text)
    assert said in refused(platform)


def test_settings_that_are_not_there_are_not_left_out(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone.toml")
    assert refused(platform, None, "--config", gone).startswith(f"{gone} is not a file")


def test_a_disk_that_fills_and_is_cleared_again_loses_nothing(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    go_on, ended = tmp_path / "go_on", tmp_path / "ended"
    job_file = {
        "name": "waits",
        "commands": [f"echo begun; until [ -e '{go_on}' ]; do sleep 0.1; done", f"touch '{ended}'"],
        "resources": {"cpu": 1, "memory": "64M"},
    }
    with mounted(platform.data_dir, "160m") as disk, ExitStack() as stack:
        platform.start()
        # Also when an assertion fails: a platform that is left behind runs on for ever.
        stack.callback(platform.stop)
        client = Client(url=platform.url, token=platform.token)
        job = client.jobs.create(job_file)
        eventually("it runs", lambda: client.jobs.get(job.id).state == JobState.RUNNING, 30)
        fill(disk / "filling")
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"is full\. Free some space"):
                client.jobs.create(job_file)
        assert client.jobs.get(job.id).state == JobState.RUNNING
        assert [each.id for each in client.jobs.list()] == [job.id]
        go_on.touch()
        eventually("it ends while nobody can write that down", ended.exists)
        (disk / "filling").unlink()
        eventually("its end is seen", lambda: client.jobs.get(job.id).ended, 30)
        assert client.jobs.get(job.id).state == JobState.COMPLETED
        eventually("all is well again", platform.ready, 30)
        again = client.jobs.create(job_file)
        eventually(
            "another one runs", lambda: client.jobs.get(again.id).state == JobState.COMPLETED, 30
        )
