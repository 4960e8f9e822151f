"""Programs of a job end when another account of the machine listens on the port at which they meet."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fault.foreign_listener import OTHER_UID, VARIANTS, Counts
from tests.support.agents import Job
from tests.support.launching import StartedRun, clean, program
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second account")

SHOW = "import time; print('ready', rank, os.getpid(), flush=True)\nopen(f'{os.environ[\"PORTS\"]}', 'a').write(os.environ['MASTER_PORT'] + '\\n'); time.sleep(60)"


@contextmanager
def foreign_listener(port: int, options: tuple[int, ...], family: int) -> Iterator[None]:
    """A process of another account that listens on the port."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
            with socket.socket(family) as server:
                for option in options:
                    server.setsockopt(socket.SOL_SOCKET, option, 1)
                server.bind(("127.0.0.1" if family == socket.AF_INET else "::", port))
                server.listen()
                os.write(writer, b"+")
                server.accept()
        finally:
            os._exit(0)
    try:
        os.close(writer)
        assert os.read(reader, 1) == b"+", "the other account could not listen"
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(reader)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["ipv4", "ipv6"])
def test_ranks_are_killed_when_another_account_listens(tmp_path: Path, family: int) -> None:
    ports, run_dir = tmp_path / "ports", tmp_path / "run"
    env = clean(PORTS=str(ports), AITNE_RUN_DIR=str(run_dir))
    begun = StartedRun("-np", "2", "--restarts", "3", *program(SHOW), env=env)
    begun.ready(2)
    port = eventually("a rank has a port", lambda: ports.exists() and ports.read_text().split())
    with foreign_listener(int(port[0]), VARIANTS[0], family):
        code, errors = begun.end()
    assert code == 1
    sentence = f"uid {OTHER_UID}, another account, listens on port {port[0]} of node"
    assert f"aitne-run: {sentence}" in errors
    assert "restarted" not in errors
    assert json.loads((run_dir / "failed-0.json").read_text())["message"].startswith(sentence)


@pytest.mark.parametrize("options", [VARIANTS[0], VARIANTS[2]], ids=["reuseaddr", "both"])
def test_commands_are_ended_when_another_account_listens(
    tmp_path: Path, options: tuple[int, ...]
) -> None:
    job = Job(tmp_path)
    job.start("echo $MASTER_PORT >port; trap '' TERM; sleep 60", "echo never")
    port = tmp_path / "port"
    number = int(eventually("the port is there", lambda: port.exists() and port.read_text()))
    with foreign_listener(number, options, socket.AF_INET):
        assert job.process is not None
        assert job.process.wait(60) == 120
    assert f"uid {OTHER_UID}, another account, listens on port {number} of node" in job.log
    assert "never" not in job.log
    outcome = json.loads((tmp_path / "outcome").read_text())
    assert (outcome["reason"], outcome["exit_code"]) == ("start_failed", 120)
    assert f"uid {OTHER_UID}" in outcome["message"]


@pytest.mark.realtime("a rank that connects just before the launcher looks has connected")
@pytest.mark.parametrize("way", ["aitne-run", "agent"])
def test_no_start_connects_to_another_account(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.foreign_listener", "--starts", "4", "--way", way],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    counts = Counts(**json.loads(done.stdout.splitlines()[-1]))
    assert counts.connected == counts.otherwise == 0, dataclasses.asdict(counts)
    assert counts.completed + counts.refused == counts.starts == 4, done.stderr
    assert counts.listened, "the other account has found no port"
