"""Tests of Docker's launcher: its requests to the daemon and the removal of containers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.runtimes import _docker_launcher
from aitne.adapters.runtimes.docker import DockerRuntime
from aitne.adapters.schedulers._local import runner
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import Bind, RuntimeLimits
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings
from tests.contract.runtimes.bench import Bench, platform
from tests.support import realtime
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES


@pytest.fixture
def bench(docker_bench: Bench) -> Bench:
    return docker_bench


def asked_of(bench: Bench, **how: Any) -> dict[str, Any]:
    """Return the daemon's description of the container of a running program."""
    run = bench.start("sh", "-c", "echo ready; exec sleep 300", **how)
    run.until("ready")
    (name,) = bench.containers()
    found: dict[str, Any] = bench.daemon.client.api.inspect_container(name)
    run.signal(signal.SIGTERM)
    assert run.end() == 143
    return found


def test_the_daemon_is_asked_for_no_more_than_the_job_may_have(bench: Bench) -> None:
    found = asked_of(
        bench, limits=RuntimeLimits(memory_bytes=256 << 20, cpus=1), labels={"aitne.job": "7"}
    )
    host = found["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["ReadonlyRootfs"] is True
    assert host["PidMode"] == ""
    assert host["IpcMode"] == "private"
    assert host["NetworkMode"] == "host"
    assert not host["Devices"]
    assert not host["Binds"]
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["NanoCpus"] == 10**9
    assert found["Config"]["User"] == f"{os.getuid()}:{os.getgid()}"
    assert found["Config"]["Labels"]["aitne.job"] == "7"
    assert {(mount["Source"], mount["Destination"], mount["RW"]) for mount in found["Mounts"]} >= {
        ("/usr", "/usr", False),
        (str(bench.home), str(bench.home), True),
    }


def test_memory_above_the_limit_ends_it(bench: Bench) -> None:
    run = bench.start(
        "python3", "-c", "bytearray(300 << 20)", limits=RuntimeLimits(memory_bytes=64 << 20, cpus=1)
    )
    assert run.end() == 137
    assert run.outcome.reason is TerminationReason.OUT_OF_MEMORY
    assert run.outcome.message == "the container was ended at its memory limit of 64 MiB"
    assert run.err == f"aitne: {run.outcome.message}.\n"


def test_container_memory_is_counted_in_samples(bench: Bench) -> None:
    with platform() as (url, reports):
        script = (
            "held = bytearray(64 << 20)\nprint('ready', flush=True)\nimport time\ntime.sleep(300)"
        )
        run = bench.start(
            "python3",
            "-c",
            script,
            agent={"platform_url": url, "sample_interval_s": 0.1},
        )
        run.until("ready")
        # More than the launcher and its guard use, for they are in the count.
        launcher = run.launcher().memory_info().rss
        eventually(
            "a sample with the container's memory",
            lambda: any(
                sample["memory_bytes"] > (64 << 20) + launcher / 4
                for report in reports
                for sample in report.get("samples", ())
            ),
        )
        run.signal(signal.SIGTERM)
        assert run.end() == 143


def test_a_signal_before_the_container_runs_ends_the_job(bench: Bench) -> None:
    launch = bench.runtime.make_launch(bench.spec(["sleep", "300"]))
    folder = bench.folder("early")
    for name in ("tmp", "var_tmp"):
        (folder / name).mkdir()
    argv = [part.replace("{tmp}", str(folder)) for part in launch.prefix]
    started = subprocess.Popen([*argv, "sleep", "300"], env={}, stdin=subprocess.DEVNULL)
    eventually(
        "the launcher listens",
        lambda: _caught(started.pid, signal.SIGTERM) or started.poll() is not None,
    )
    started.send_signal(signal.SIGTERM)
    assert started.wait(30) == 143
    eventually("the container is gone", lambda: bench.containers() == [])


def _caught(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith("SigCgt:"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_the_container_goes_when_launcher_and_agent_are_killed(bench: Bench) -> None:
    run = bench.start("sh", "-c", "echo ready; exec sleep 300")
    run.until("ready")
    agent, launcher = run.agent, run.launcher()
    agent.send_signal(signal.SIGKILL)
    launcher.send_signal(signal.SIGKILL)
    eventually("the container is gone", lambda: bench.containers() == [])
    assert run.process.wait(30) == 0


def test_leftover_containers_of_ended_owner_are_removed_by_next_start(bench: Bench) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = _docker_launcher.process_identity(gone.pid)
    gone.communicate(b"\n")
    api = bench.daemon.client.api
    assert bench.image is not None
    config = {"Image": bench.image.digest, "Cmd": ["true"]}
    for name, label in (
        ("dead", owner),
        ("alive", _docker_launcher.process_identity(os.getpid())),
    ):
        labels = {_docker_launcher.OWNER: label}
        api.create_container_from_config({**config, "Labels": labels}, name)
    run = bench.start("sh", "-c", "echo ready; exec sleep 300")
    run.until("ready")
    eventually("the dead one is gone", lambda: "dead" not in bench.containers())
    assert "alive" in bench.containers()
    api.remove_container("alive")
    run.signal(signal.SIGTERM)
    assert run.end() == 143


def test_an_image_that_is_not_there_is_not_fetched(bench: Bench) -> None:
    digest = "sha256:" + "1" * 64
    bench.image = ImageUse(reference="gone:1", digest=digest)
    run = bench.start("true")
    assert run.end() == 125
    assert digest in run.err
    assert run.outcome.reason is TerminationReason.START_FAILED
    assert "not in Docker's store" in (run.outcome.message or "")


def test_a_daemon_that_is_away_is_said(bench: Bench) -> None:
    place = bench.home / "nowhere.sock"
    containers = ContainerSettings(docker_url=f"unix://{place}")
    bench.runtime = DockerRuntime(Settings(data_dir=bench.home, containers=containers))
    run = bench.start("true")
    assert run.end() == 125
    assert run.outcome.reason is TerminationReason.START_FAILED
    assert str(place) in (run.outcome.message or "")


def test_how_the_program_ended_survives_a_daemon_that_fails_afterwards(bench: Bench) -> None:
    with refusing(bench.daemon.url, b"DELETE ") as url:
        containers = ContainerSettings(docker_url=url)
        bench.runtime = DockerRuntime(Settings(data_dir=bench.home, containers=containers))
        run = bench.start("sh", "-c", "exit 7")
        assert run.end() == 7
    assert run.outcome.message is None


def test_a_program_may_end_with_the_launchers_codes(bench: Bench) -> None:
    run = bench.start("sh", "-c", "echo aitne of old >&2; exit 125")
    assert run.end() == 125
    assert run.outcome.reason is None


@contextmanager
def refusing(url: str, words: bytes) -> Iterator[str]:
    """Forward to the daemon, but close the connection at the first request with this beginning."""
    place = Path(tempfile.mkdtemp(prefix="aitne-relay-"), "docker.sock")
    refused = threading.Event()

    def carry(source: socket.socket, target: socket.socket, watched: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65_536):
                if watched and chunk.startswith(words) and not refused.is_set():
                    refused.set()
                    source.shutdown(socket.SHUT_RDWR)
                    break
                target.sendall(chunk)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def relay(asked: socket.socket) -> None:
        with asked, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(url.removeprefix("unix://"))
            back = threading.Thread(target=carry, args=(daemon, asked, False))
            back.start()
            carry(asked, daemon, watched=True)
            back.join()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=relay, args=(door.accept()[0],), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place))
        door.listen()
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield f"unix://{place}"
        assert refused.is_set()
        door.shutdown(socket.SHUT_RDWR)
        server.join()
    shutil.rmtree(place.parent)


FACTS = {
    "url": "http://127.0.0.1:1",
    "env_prefix": "AITNEENV_",
    "image": "sha256:" + "0" * 64,
    "binds": [],
    "home": "/h",
    "workdir": "/h",
    "writable": False,
    "network": True,
    "memory_bytes": None,
    "cpus": None,
    "cgroup_parent": None,
    "labels": {},
}


@pytest.mark.parametrize(
    ("visible", "request_"),
    [
        ("GPU-a,MIG-b", {"Count": 0, "DeviceIDs": ["GPU-a", "MIG-b"]}),
        ("1,2", {"Count": -1, "DeviceIDs": []}),
        ("", {"Count": -1, "DeviceIDs": []}),
    ],
)
def test_gpus_are_asked_for_by_name(
    visible: str, request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNEENV_CUDA_VISIBLE_DEVICES", visible)
    options = _docker_launcher.container_options(FACTS, "/t", ["true"], gpus=True)
    (found,) = options["HostConfig"]["DeviceRequests"]
    assert found["Capabilities"] == [["gpu"]]
    assert {name: found[name] for name in request_} == request_


@pytest.mark.parametrize("gpus", [False, True])
def test_a_variable_gives_nobody_gpus(gpus: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITNEENV_NVIDIA_VISIBLE_DEVICES", "all")
    options = _docker_launcher.container_options(FACTS, "/t", ["true"], gpus=gpus)
    said = [each for each in options["Env"] if each.startswith("NVIDIA_VISIBLE_DEVICES=")]
    assert said == ([] if gpus else ["NVIDIA_VISIBLE_DEVICES=void"])


def test_containers_have_the_groups_of_the_user_but_that_of_docker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker.sock"
    docker.touch()
    group = docker.stat().st_gid
    monkeypatch.setattr(os, "getgroups", lambda: [group, group + 1])
    facts = FACTS | {"url": f"unix://{docker}"}
    options = _docker_launcher.container_options(facts, "/t", ["true"], gpus=False)
    assert options["HostConfig"]["GroupAdd"] == [str(group + 1)]


def test_the_local_runner_recognizes_the_process_that_removes_the_container() -> None:
    """The guard has the launcher's command line. The runner may not import the launcher."""
    assert runner._CLEARS_UP in _docker_launcher.__name__.encode()


def test_a_missing_bind_is_not_made(bench: Bench) -> None:
    place = bench.home / "not-there"
    run = bench.start("true", binds=(Bind(source=str(place), target="/mnt/x", writable=True),))
    assert run.end() == 125
    assert not place.exists()
