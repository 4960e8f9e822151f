"""A session with ranks: its app on the first node, and ranks on each, on a machine that stands for
two nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.agent_protocol import AgentApp, AgentReport, ProgramPhase
from tests.integration.agent.test_agent import LAUNCHER, handover, shut_down
from tests.support import realtime
from tests.support.agents import JOB, Job, Platform

pytestmark = realtime.PROCESSES

TWO = [{"node": "node01", "gpus": [0]}, {"node": "node02", "gpus": [1, 3]}]
ENGINE = (
    "import os, time; e = os.environ;"
    "print('rank', e['RANK'], e['AITNE_RANKS_FOLDER'], os.getpid(), e.get('CUDA_VISIBLE_DEVICES'),"
    " flush=True); time.sleep(60)"
)
NOTEBOOK = """
import json, os, pathlib, sys, time
print("notebook", os.environ.get("AITNE_RANKS_FOLDER"), flush=True)
ended = pathlib.Path(os.environ["AITNE_RANKS_ENDED"])
while not (pathlib.Path(sys.argv[1]) / "go").exists() and not ended.exists():
    time.sleep(0.05)
failure = {"message": "cell 1 of 2 failed" if ended.exists() else "never read"}
(pathlib.Path(sys.argv[1]) / "failure.json").write_text(json.dumps(failure))
sys.exit(3 if ended.exists() else 0)
"""
APP = "import os; print('app', os.environ.get('AITNE_RANKS_FOLDER'), flush=True)" + LAUNCHER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the first attempt, beside which checkpoints are."""
    folder = tmp_path / "1"
    folder.mkdir()
    return folder


def session(nodes: int = 2, engine: str = ENGINE, need: str | None = None) -> dict[str, Any]:
    """Return a session with two ranks on each node, as the renderer describes it."""
    variables = {"AITNE_RANKS_FOLDER": "~/ranks"}
    launcher = (sys.executable, "-m", "aitne_train.launcher", "node")
    app = json.dumps({"argv": [sys.executable, "-I", "-c", APP], "env": variables})
    ranks = (
        *("--nodes", str(nodes), "--node-rank", "{node_rank}", "--ranks", "2"),
        *("--run-dir", "{run_dir}", "--job", JOB, "--grace", "86400"),
        *("--", sys.executable, "-c", engine),
    )
    lab = AgentApp(
        name="lab",
        kind="jupyterhub",
        argv=(*launcher, "--app", app, *ranks),
        readiness_path="/api",
        timeout_s=300,
    )
    return {
        "apps": (lab,),
        "commands": ((*launcher, *ranks),),
        "ranks": {
            "nodes": nodes,
            "ranks_per_node": 2,
            "agent": (sys.executable, "-I", "-m", "aitne.agent"),
            "env": variables,
        },
        "around": {"AITNE_LOCAL_NODES": json.dumps(TWO)} if nodes > 1 else {},
        "inactivity_duration_s": 60,
    }


def notebook(folder: Path) -> dict[str, Any]:
    """Return a job with a notebook and the same ranks, as the renderer describes it. The program
    ends when a file ``go`` exists, or when the ranks have ended."""
    described = session()
    program = [sys.executable, "-c", NOTEBOOK, str(folder)]
    app = json.dumps({"argv": program, "env": described["ranks"]["env"]})
    argv = described["apps"][0].argv
    return {
        "leader": (*argv[: argv.index("--app") + 1], app, *argv[argv.index("--app") + 2 :]),
        "explains_failure": True,
        **{name: described[name] for name in ("commands", "ranks", "around")},
    }


def begun(job: Job, platform: Platform, count: int) -> tuple[str, dict[int, int]]:
    """Wait until the app is ready and all ranks run; return the app's address and the PIDs."""
    platform.hand_over((200, handover()))
    address = platform.report(ProgramPhase.READY).address
    assert address is not None
    for rank in range(count):
        job.log_says(f"rank {rank} ")
    lines = re.findall(r"^rank (\d+) ~/ranks (\d+)", job.log, re.MULTILINE)
    return address, {int(rank): int(pid) for rank, pid in lines}


def end_of_ranks(platform: Platform) -> str:
    reports = platform.until(lambda found: any(report.ranks_ended for report in found))
    return next(str(report.ranks_ended) for report in reports if report.ranks_ended)


def lives(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/exe")


def test_every_node_runs_its_ranks_and_the_end_of_the_app_ends_them(
    job: Job, platform: Platform
) -> None:
    process = job.start(url=platform.url, **session())
    address, pids = begun(job, platform, 4)
    assert sorted(pids) == [0, 1, 2, 3]
    assert "app None" in job.log  # what belongs to the ranks is none of the app's
    assert re.findall(r"^rank 3 .* (1,3)$", job.log, re.MULTILINE)

    # All nodes are measured, and report activity; only the first one speaks for the session.
    def measured(found: list[AgentReport]) -> bool:
        nodes = {sample.node for report in found for sample in report.samples}
        active = {report.node for report in found if report.idle_s is not None}
        return nodes == active == {"node01", "node02"}

    for report in platform.until(measured):
        assert report.node == "node01" or report.phase is ProgramPhase.RUNNING
    shut_down(address)
    assert process.wait(20) == 0
    assert not any(map(lives, pids.values()))
    assert not any(report.ranks_ended for report in platform.reports)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_killed_rank_is_named_and_the_app_continues(
    job: Job, platform: Platform, nodes: int
) -> None:
    process = job.start(url=platform.url, **session(nodes))
    address, pids = begun(job, platform, 2 * nodes)
    last = 2 * nodes - 1
    os.kill(pids[last], signal.SIGKILL)
    sentence = end_of_ranks(platform)
    assert sentence == (
        f"Rank {last} on node node0{nodes} was ended by signal 9 (SIGKILL)."
        " The session continues without ranks"
    )
    assert not any(map(lives, pids.values()))
    shut_down(address)  # it still answers
    assert process.wait(20) == 0


def test_a_killed_agent_of_a_node_is_named_and_the_app_continues(
    job: Job, platform: Platform
) -> None:
    process = job.start(url=platform.url, **session())
    address, pids = begun(job, platform, 4)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes().split(b"\0")
        if b"--node" in words and os.fsencode(job.folder) in words:
            os.kill(int(entry.parent.name), signal.SIGKILL)
    sentence = end_of_ranks(platform)
    assert sentence == ("Node node02 was lost, with the ranks. The session continues without ranks")
    shut_down(address)
    assert process.wait(20) == 0
    assert not any(map(lives, pids.values()))


def test_ranks_that_cannot_start_leave_the_session_alone(job: Job, platform: Platform) -> None:
    process = job.start(url=platform.url, **session(engine="raise SystemExit(3)"))
    platform.hand_over((200, handover()))
    address = platform.report(ProgramPhase.READY).address
    assert address is not None
    assert re.match(r"Rank \d on node node0[12] ended with exit code 3\.", end_of_ranks(platform))
    shut_down(address)
    assert process.wait(20) == 0


def test_a_stopped_session_ends_everything(job: Job, platform: Platform) -> None:
    process = job.start(url=platform.url, **session())
    _, pids = begun(job, platform, 4)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not any(map(lives, pids.values()))


def test_a_notebook_runs_once_beside_the_ranks_of_all_nodes_and_ends_them(
    job: Job, platform: Platform
) -> None:
    process = job.start(url=platform.url, **notebook(job.folder))
    for rank in range(4):
        job.log_says(f"rank {rank} ")
    pids = [int(pid) for pid in re.findall(r"^rank \d ~/ranks (\d+)", job.log, re.MULTILINE)]
    assert job.log.count("notebook None\n") == 1
    (job.folder / "go").touch()
    assert process.wait(20) == 0
    assert not any(map(lives, pids))
    assert not any(report.ranks_ended for report in platform.reports)


def test_a_notebook_outlives_its_ranks_and_says_itself_why_it_failed(
    job: Job, platform: Platform
) -> None:
    process = job.start(url=platform.url, **notebook(job.folder))
    for rank in range(4):
        job.log_says(f"rank {rank} ")
    (last,) = re.findall(r"^rank 3 ~/ranks (\d+)", job.log, re.MULTILINE)
    os.kill(int(last), signal.SIGKILL)
    assert process.wait(30) == 3
    assert platform.report(ProgramPhase.FINISHED).message == "cell 1 of 2 failed"
