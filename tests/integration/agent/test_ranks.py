"""A job with ranks: an agent on each node, on a machine that stands for two nodes."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.agent_protocol import EXIT_PREEMPTED, ProgramPhase
from aitne.core.ports.job_files import ProgramOutcome
from tests.support import realtime
from tests.support.agents import Job, Platform

pytestmark = realtime.PROCESSES

TWO = [{"node": "node01", "gpus": [0]}, {"node": "node02", "gpus": [1, 3]}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the first attempt, beside which checkpoints are."""
    folder = tmp_path / "1"
    folder.mkdir()
    return folder


def ranks(nodes: int = 2, **around: str) -> dict[str, Any]:
    """Return a program of two ranks on each node; its commands take the place of the spawner."""
    agent = (sys.executable, "-I", "-m", "aitne.agent")
    facts = {
        "nodes": nodes,
        "ranks_per_node": 2,
        "agent": agent,
        "env": {"AITNE_TRANSPORT": "gloo"},
    }
    pretended = {"AITNE_LOCAL_NODES": json.dumps(TWO)} if nodes > 1 else {}
    return {"ranks": facts, "around": {**pretended, **around}}


def outcome(job: Job) -> ProgramOutcome:
    return ProgramOutcome.model_validate_json((job.folder / "outcome").read_bytes())


def test_every_node_runs_the_commands_and_knows_its_place(job: Job) -> None:
    say = 'echo "$SLURMD_NODENAME $AITNE_NODE_RANK/$AITNE_NODES $AITNE_RANKS_PER_NODE'
    more = ' $CUDA_VISIBLE_DEVICES $AITNE_TRANSPORT $AITNE_RUN_RESTARTS $AITNE_RUN_DIR"'
    around = {"SLURM_RESTART_COUNT": "2"}
    assert job.run(say + more, "echo again $AITNE_RUN_DIR", **ranks(**around)) == 0
    run = job.folder / "run" / "2"
    assert sorted(job.log.splitlines()) == [
        *(f"again {run}/1" for _ in TWO),
        f"node01 0/2 2 0 gloo 2 {run}/0",
        f"node02 1/2 2 1,3 gloo 2 {run}/0",
    ]
    assert (run / "0").stat().st_mode & 0o777 == 0o700


def test_checkpoints_are_stored_beside_attempts(job: Job) -> None:
    assert job.run("echo saved > $AITNE_CHECKPOINTS/last; test -d $AITNE_METRICS") == 0
    assert (job.folder.parent / "checkpoints" / "last").read_text() == "saved\n"
    # A folder that no program used does not stay: files in a home count toward its quota.
    assert not (job.folder.parent / "metrics").exists()


def test_the_rank_that_failed_first_is_named_and_the_others_are_ended(job: Job) -> None:
    died = '{"rank": 3, "local_rank": 1, "exit_code": 137, "signal": 9}'
    job.start(
        "if [ $AITNE_NODE_RANK = 1 ]; then until [ -e $AITNE_RUN_DIR/up ]; do sleep .05; done;"
        f" echo '{died}' > $AITNE_RUN_DIR/failed-1.json; exit 137; fi;"
        " trap 'echo told; exit 1' TERM; touch $AITNE_RUN_DIR/up; while :; do sleep .05; done",
        **ranks(),
    )
    assert job.process is not None
    assert job.process.wait(20) == 137
    left = outcome(job)
    assert (left.exit_code, left.reason, left.interrupted) == (137, "failed", False)
    assert left.message == "rank 3 on node node02 was ended by signal 9 (SIGKILL)"
    assert "told" in job.log


def test_killed_agent_of_another_node_is_named(job: Job) -> None:
    script = "if [ $AITNE_NODE_RANK = 1 ]; then kill -9 $PPID; else sleep 60; fi"
    assert job.run(script, **ranks()) == 137
    ended = outcome(job)
    assert (ended.reason, ended.lost_nodes) == ("node_failed", ("node02",))
    assert ended.message == "the agent on node node02 was lost, and its ranks with it"


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_without_work_say_why_they_ended(job: Job, nodes: int) -> None:
    text = '{"idle_s": 900}'
    say = f"if [ $AITNE_NODE_RANK = 0 ]; then echo '{text}' > $AITNE_RUN_DIR/released.json; fi"
    assert job.run(say, **ranks(nodes)) == 0
    assert outcome(job).message == "released after 15 minutes without work"
    assert "aitne: released after 15 minutes without work.\n" in job.log


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_ranks_that_save_when_they_are_told_to_end_go_on_later(
    job: Job, nodes: int, number: signal.Signals
) -> None:
    # One of the nodes takes longer, and must be let finish.
    save = "echo told; sleep 0.$AITNE_NODE_RANK; echo saved; exit 75"
    job.start(f"trap '{save}' TERM USR1; echo up; while :; do sleep .05; done", **ranks(nodes))
    assert job.process is not None
    job.log_says("up\n" * nodes)
    job.process.send_signal(number)
    assert job.process.wait(20) == EXIT_PREEMPTED
    assert job.log.count("saved") == nodes
    assert outcome(job).reason == "preempted"


def test_a_program_that_ends_with_that_code_by_itself_has_failed(job: Job) -> None:
    assert job.run("exit 75", **ranks()) == EXIT_PREEMPTED
    assert outcome(job).reason is None


def test_missing_dataset_on_one_node_is_named_in_job_message(job: Job) -> None:
    need = {"what": "the dataset x:1", "path": "/nonexistent/x", "kind": "folder"}
    assert job.run("echo never", needs=[need], **ranks()) == 120
    left = outcome(job)
    assert left.reason == "start_failed"
    assert "the dataset x:1 is missing on node node0" in (left.message or "")


def test_agents_that_cannot_be_started_are_no_end_of_the_program(job: Job, tmp_path: Path) -> None:
    facts = ranks()
    assert job.run("echo never", ranks=facts["ranks"], around={"PATH": str(tmp_path)}) == 127
    assert outcome(job).message == "srun cannot be started: No such file or directory"


def test_all_nodes_are_measured_and_the_first_one_speaks_for_the_job(
    job: Job, platform: Platform
) -> None:
    document = '{"schema": 1, "size": 4}'
    job.start(
        f"echo '{document}' > $AITNE_RUN_DIR/.p; mv $AITNE_RUN_DIR/.p $AITNE_RUN_DIR/profile.json;"
        " while ! [ -e $AITNE_JOB_DIR/go ]; do sleep .02; done",
        url=platform.url,
        **ranks(AITNE_JOB_DIR=str(job.folder)),
    )
    platform.until(
        lambda found: (
            {sample.node for report in found for sample in report.samples} == {"node01", "node02"}
        )
    )
    (job.folder / "go").touch()
    platform.report(ProgramPhase.FINISHED)
    for report in platform.reports:
        assert (report.phase is ProgramPhase.RUNNING) == (report.node_rank is not None)
        assert report.profile in (None, json.loads(document))
    assert {report.node for report in platform.reports if report.profile} == {"node01"}


@pytest.mark.parametrize("content", ["[1]", "{", '"' + "x" * (300 << 10) + '"', None])
def test_invalid_profile_is_not_sent(job: Job, platform: Platform, content: str | None) -> None:
    if content is not None:
        (job.folder / "p").write_text(content)
    make = "mkfifo $AITNE_RUN_DIR/profile.json" if content is None else ""
    copy = make or f"cp {job.folder}/p $AITNE_RUN_DIR/profile.json"
    assert job.start(copy, url=platform.url, **ranks(1)).wait(20) == 0
    platform.report(ProgramPhase.FINISHED)
    assert all(report.profile is None for report in platform.reports)
