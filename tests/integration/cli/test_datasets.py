"""Datasets from the command line against a whole platform: odd names, killed runs, damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import realtime
from tests.support.platform import AITNE, RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

SLOW_FILES, SLOW_BYTES = 16, 96 << 20
"""Files that one core reads for a while; they are sparse and use little disk space."""
Aitne = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cache(platform: RunningPlatform, tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own, where the command line keeps its journals."""
    shared = platform.env["XDG_CACHE_HOME"]
    platform.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    yield tmp_path / "cache" / "aitne" / "datasets"
    platform.env["XDG_CACHE_HOME"] = shared


@pytest.fixture
def data(platform: RunningPlatform) -> Iterator[Path]:
    root = platform.home / "data"
    for name in (b"plain", b"new\nline", b"quo'te\"$(id)", b"\xff\xfe", "é".encode(), b"\\n"):
        folder = os.fsencode(root) + b"/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name)
    (root / "link").symlink_to("plain/plain")
    yield root
    shutil.rmtree(root)


@pytest.fixture
def slow(platform: RunningPlatform) -> Iterator[Path]:
    root = platform.home / "slow"
    root.mkdir()
    for number in range(SLOW_FILES):
        with (root / f"{number:02}").open("wb") as file:
            file.write(b"%d" % number)
            file.truncate(SLOW_BYTES)
    yield root
    shutil.rmtree(root)


def stopped_half_way(
    platform: RunningPlatform, cache: Path, how: signal.Signals, *words: str
) -> tuple[int, str]:
    """Send a signal to a command after it has read some files; return its status and output.

    It runs on one core.
    """
    core = str(min(os.sched_getaffinity(0)))
    with subprocess.Popen(
        ["taskset", "-c", core, AITNE, *words],
        env=platform.env,
        cwd=platform.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        eventually("a file that was read", lambda: _journalled(cache) or process.poll(), 60, 0.01)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


def _journalled(cache: Path) -> bool:
    return any(each.stat().st_size for each in cache.glob("*.journal"))


def registered(platform: RunningPlatform) -> dict[str, Any]:
    listed = platform.aitne("dataset", "ls", "--json")
    return {f"{each['name']}:{each['version']}": each for each in json.loads(listed.stdout)}


def test_a_dataset_with_odd_names_is_added_and_verified(
    platform: RunningPlatform, cache: Path, data: Path
) -> None:
    added = platform.aitne("dataset", "add", "odd", str(data), "--version", "1", "--yes", "--json")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["files"] == 6
    assert json.loads(added.stdout)["projects"] == [json.loads(added.stdout)["owner"]]
    done = platform.aitne("dataset", "verify", "odd")
    assert done.returncode == 0, done.stderr
    assert registered(platform)["odd:1"]["damaged_files"] == 0

    again = platform.aitne("dataset", "add", "odd", str(data), "--version", "1", "--yes")
    assert again.returncode == 1
    assert "another --version" in again.stderr


def test_changed_byte_in_dataset_is_found_and_recorded(
    platform: RunningPlatform, cache: Path, data: Path
) -> None:
    platform.aitne("dataset", "add", "bitrot", str(data), "--version", "1", "--yes")
    victim = data / "new\nline" / "new\nline"
    times = victim.stat()
    with victim.open("r+b") as file:
        file.seek(3)
        file.write(b"\r")
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = platform.aitne("dataset", "verify", "bitrot", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["differences"] == [
        {"path": "new\\nline/new\\nline", "what": "differs", "reason": "has different content"}
    ]
    noted = registered(platform)["bitrot:1"]
    assert noted["damaged_files"] == 1
    assert noted["verified_by"] == noted["owner"]


def test_a_killed_add_registers_nothing_and_goes_on(
    platform: RunningPlatform, cache: Path, slow: Path
) -> None:
    words = ("dataset", "add", "slow", str(slow), "--version", "1", "--yes")
    before = set(platform.data_dir.glob("**/manifest*"))
    status, _ = stopped_half_way(platform, cache, signal.SIGKILL, *words)
    assert status == -signal.SIGKILL
    assert "slow:1" not in registered(platform)
    assert set(platform.data_dir.glob("**/manifest*")) == before

    again = platform.aitne(*words)
    assert again.returncode == 0, again.stderr
    assert "Resuming where an interrupted run stopped." in again.stderr
    assert registered(platform)["slow:1"]["files"] == SLOW_FILES
    assert list(cache.iterdir()) == []

    status, _ = stopped_half_way(platform, cache, signal.SIGKILL, "dataset", "verify", "slow")
    assert status == -signal.SIGKILL
    assert registered(platform)["slow:1"]["verified_at"] is None
    # The last that a run reads: the killed one has not seen it.
    with (slow / "00").open("r+b") as file:
        file.seek(SLOW_BYTES - 1)
        file.write(b"!")
    done = platform.aitne("dataset", "verify", "slow", "--json")
    assert done.returncode == 1
    assert "Resuming where an interrupted run stopped." in done.stderr
    assert [each["path"] for each in json.loads(done.stdout)["differences"]] == ["00"]


def test_ctrl_c_says_how_to_go_on(platform: RunningPlatform, cache: Path, slow: Path) -> None:
    words = ("dataset", "add", "broken-off", str(slow), "--version", "1", "--yes")
    status, said = stopped_half_way(platform, cache, signal.SIGINT, *words)
    assert (status, "run the same command again" in said) == (130, True), said
    assert "Traceback" not in said
    assert "broken-off:1" not in registered(platform)


def test_invalid_dataset_folder_is_not_registered(
    platform: RunningPlatform, cache: Path, data: Path
) -> None:
    os.mkfifo(data / "pipe")
    before = registered(platform)
    for path, said in [
        ("/etc", "a dataset lies below a folder of yours"),
        (str(data / "nothing"), "No such file"),
        (str(data / "plain" / "plain"), "not a folder"),
        (str(data), "1 path cannot be in a dataset"),
    ]:
        done = platform.aitne("dataset", "add", "bad", path, "--version", "1", "--yes")
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    assert registered(platform) == before
