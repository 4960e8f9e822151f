"""Processes of a job, which its agent measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aitne.agent import sampler
from aitne.core.jobs.agent_protocol import AgentSample
from tests.support.waiting import eventually
from tests.unit.agent.test_parts import spec_in


def test_lists_of_children_have_those_of_threads_and_no_zombies() -> None:
    program = (
        "import os, subprocess, threading, time\n"
        "start = lambda: subprocess.Popen(['sh', '-c', 'sleep 60; true'])\n"
        "thread = threading.Thread(target=lambda: (start(), time.sleep(60)), daemon=True)\n"
        "thread.start()\n"
        "child = os.fork()\n"
        "if not child: os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"  # a zombie from now on
        "print('done', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        eventually(
            "the shell and its program run", lambda: len(sampler.list_descendants(child.pid)) == 2
        )
        found = sampler.list_descendants_from_kernel(child.pid)
        assert sorted(found) == sorted(sampler.list_descendants(child.pid))
        for pid in (*found, child.pid):
            os.kill(pid, 9)
    assert sampler.list_descendants_from_kernel(child.pid) == []


MEASURE_A_PROGRAM = """
import json, subprocess, sys
from aitne.agent import reporter, sampler
from aitne.agent.spec import Spec

spec = Spec(sys.argv[1], {})
measuring = sampler.Sampler(spec, reporter.Reporter(spec))
program = [sys.executable, "-I", "-S", "-c", sys.argv[2]]
with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    print(json.dumps(measuring.measure()))
    child.stdin.close()
    child.kill()
"""


def test_a_sample_counts_the_descendants_and_not_the_agent(tmp_path: Path) -> None:
    spec_in(tmp_path)
    program = (
        "import os, sys, time\nx = bytearray(64 << 20)\n"
        "if not os.fork():\n  sys.stdin.read(1)\nelse:\n"
        "  end = time.process_time() + .1\n  while time.process_time() < end: pass\n"
        "  print('done', flush=True); time.sleep(60)\n"
    )
    # Children of this process, such as ranks that other tests use, would be measured, too.
    done = subprocess.run(
        [sys.executable, "-c", MEASURE_A_PROGRAM, str(tmp_path), program],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert set(found) == set(AgentSample.model_fields)
    AgentSample.model_validate(found)
    assert found["read_bytes"] >= 0
    assert found["written_bytes"] >= 0
    assert found["processes"] == 2
    assert 64 << 20 <= found["memory_bytes"] < 300 << 20
    assert 0 < found["cpu"] < 64


def test_the_interval_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    taken: list[object] = []

    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 1_000:
            raise Enough

    monkeypatch.setattr(sampler.time, "sleep", sleep)
    monkeypatch.setattr(sampler.ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *_: 0))
    measuring = sampler.Sampler(
        spec_in(tmp_path),
        SimpleNamespace(queue_sample=taken.append),  # type: ignore[arg-type]
    )
    results = iter(range(10_000))

    def measure() -> dict[str, Any]:
        if next(results) % 10 == 0:
            raise OSError("a process ended")
        return {}

    monkeypatch.setattr(measuring, "measure", measure)
    with pytest.raises(Enough):
        measuring._run()
    assert len(taken) == 900
    assert pauses[0] == 2.0
    assert pauses[-1] == 16.0
    assert pauses.count(2.0) == pytest.approx(334, abs=1)
