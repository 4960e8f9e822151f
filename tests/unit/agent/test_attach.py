"""The traffic of a program beside a job, with the agent as a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from aitne.core.sessions.attach_protocol import AgentFrameDecoder, encode_frame
from tests.support.alive import alive
from tests.support.waiting import eventually
from tests.unit.agent.test_parts import spec_in

FILLS = """
import os, sys, time
os.set_blocking(1, False)
written, full = 0, 0
while full < 5:
    try:
        written += os.write(1, b"x" * 4096)
        full = 0
    except BlockingIOError:
        full += 1
        time.sleep(0.1)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {written}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
"""As much as fits in between, and then it ends."""


def test_output_of_ended_program_arrives_although_read_late(tmp_path: Path) -> None:
    spec_in(tmp_path)
    said = tmp_path / "said"
    start = json.dumps({"kind": "shell", "argv": [sys.executable, "-c", FILLS, str(said)]}).encode()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = (sys.executable, "-m", "aitne.agent", "--attach", str(tmp_path))
        with subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno()) as agent:
            theirs.close()
            ours.settimeout(30)
            ours.sendall(encode_frame(b"S", start))
            eventually("the program has filled all there is", said.exists)
            pid, written = map(int, said.read_text().split())
            eventually("the agent has seen its end", lambda: not alive(pid))
            heard = b""
            while data := ours.recv(1 << 20):
                heard += data
    assert agent.returncode == 0
    kinds = list(AgentFrameDecoder().feed(heard))
    assert kinds[-1] == (b"X", b'{"code": 0}')
    assert sum(len(content) for kind, content in kinds if kind == b"D") == written


def test_a_program_that_does_not_read_ends_when_nobody_is_there_any_more(tmp_path: Path) -> None:
    spec_in(tmp_path)
    said = tmp_path / "said"
    program = (
        "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    )
    argv = [sys.executable, "-c", program, str(said)]
    start = json.dumps({"kind": "shell", "argv": argv}).encode()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent_argv = (sys.executable, "-m", "aitne.agent", "--attach", str(tmp_path))
        with subprocess.Popen(agent_argv, stdin=theirs.fileno(), stdout=theirs.fileno()) as agent:
            theirs.close()
            ours.sendall(encode_frame(b"S", start))
            eventually("the program runs", lambda: said.exists() and said.read_text() != "")
            ours.settimeout(1)
            with suppress(TimeoutError):
                for _ in range(10_000):
                    ours.sendall(encode_frame(b"D", bytes(1_000)))
            ours.close()
            agent.wait(20)
    eventually("the program has ended", lambda: not alive(int(said.read_text())))
