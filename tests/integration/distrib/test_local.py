"""Jobs of two ranks on each of two nodes, where this machine stands for both nodes."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aitne.client import Client
from tests.integration.distrib.conftest import SAY, log_of, two_by_two
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.requirements import need_package
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

EXAMPLES = Path(__file__).parents[3] / "examples" / "notebooks"
KILLED = """\
%%distributed
import os, signal
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
import time; time.sleep(60)"""
until = partial(eventually, within_s=60, poll_s=0.1)
WAIT = f"python -c '{SAY}'; touch up-$RANK-$AITNE_RUN_RESTARTS; exec sleep 120"


def processes(job_id: str) -> dict[str, int]:
    """Return the running processes of a job's ranks by number."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = dict(
                part.split("=", 1)
                for part in (entry / "environ").read_text(errors="replace").split("\0")
                if "=" in part
            )
            argv = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if job_id in environ.get("AITNE_JOB_DIR", "") and "RANK" in environ and argv:
            found[environ["RANK"]] = int(entry.name)
    return found


def test_every_rank_knows_its_place(owner: Client) -> None:
    job = owner.jobs.create(two_by_two(f"python -c '{SAY}'"))
    ended = owner.jobs.wait(job.id, timeout_s=60)
    assert (ended.state, ended.nodes) == ("COMPLETED", ["node01", "node03"]), log_of(owner, job.id)
    lines = [
        dict(word.split("=") for word in line.split())
        for line in log_of(owner, job.id).splitlines()
        if "RANK=" in line
    ]
    assert sorted(line["RANK"] for line in lines) == ["0", "1", "2", "3"]
    for line in lines:
        node, local = divmod(int(line["RANK"]), 2)
        assert line == {
            "RANK": line["RANK"],
            "HOROVOD_RANK": line["RANK"],
            "WORLD_SIZE": "4",
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": "2",
            "HOROVOD_CROSS_RANK": str(node),
            "AITNE_NODE_RANK": str(node),
            "SLURMD_NODENAME": f"node0{2 * node + 1}",
            "AITNE_RUN_RESTARTS": "0",
            "AITNE_TRANSPORT": "torch_pg",
        }


def test_ranks_follow_the_leaves_of_the_platforms_topology(
    owner: Client, here: RunningPlatform
) -> None:
    leaves = {"node01": "a", "node02": "b", "node03": "a", "node04": "b"}
    size = {"nodes": 4, "cpu": 1, "memory": "200M"}
    say = "echo rank $RANK $SLURMD_NODENAME"
    job = owner.jobs.create(two_by_two(say, resources=size, distributed={"ranks_per_node": 1}))
    assert owner.jobs.wait(job.id, timeout_s=60).state == "COMPLETED", log_of(owner, job.id)
    log = log_of(owner, job.id)
    assert "rank order" not in log
    placement = json.loads(here.aitne("topology", "show", "--job", job.id, "--json").stdout)
    assert placement == owner.jobs.placement(job.id)
    assert "rank order: 4 -> 2 crossings, busiest uplink 2 -> 1" in placement["reason"].lower()
    order = ["node01", "node03", "node02", "node04"]
    assert (placement["order"], placement["leaves"]) == (order, leaves)
    assert placement["crossings"] == {"given": 4, "chosen": 2, "best": 2}
    assert [each["node"] for each in placement["bindings"]] == order
    assert sorted(line for line in log.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} {name}" for rank, name in enumerate(order)
    ]


def test_the_portals_form_starts_ranks_too(owner: Client, here: RunningPlatform) -> None:
    script = here.home / "say.py"
    script.write_text(f"import sys\n{SAY}print(sys.argv[1:])\n")
    job = owner.jobs.create(
        {
            "type": "job",
            "template": "distributed-train",
            "parameters": {
                "script": str(script),
                "arguments": "--epochs 'a b'",
                "folder": "~",
                "ranks_per_node": 2,
                "backend": "auto",
            },
            "resources": {"nodes": 2, "cpu": 1, "memory": "512M", "gpu": 0},
        }
    )
    assert owner.jobs.wait(job.id, timeout_s=60).state == "COMPLETED", log_of(owner, job.id)
    log = log_of(owner, job.id)
    assert log.count("WORLD_SIZE=4") == 4
    assert log.count("['--epochs', 'a b']") == 4


def test_samples_of_both_nodes_arrive(owner: Client) -> None:
    job = owner.jobs.create(two_by_two(WAIT))
    until(
        "samples of both nodes",
        lambda: (
            {sample["node"] for sample in owner.jobs.metrics(job.id)["samples"]}
            == {"node01", "node03"}
        ),
    )
    owner.jobs.cancel(job.id)
    assert owner.jobs.wait(job.id, timeout_s=60).state == "CANCELLED"


def test_a_cancelled_job_leaves_no_rank(owner: Client) -> None:
    told = "trap 'echo rank $RANK was told; exit 0' TERM; echo up; while :; do sleep .05; done"
    job = owner.jobs.create(two_by_two(told))
    until("all ranks are up", lambda: log_of(owner, job.id).count("up\n") == 4)
    owner.jobs.cancel(job.id)
    assert owner.jobs.wait(job.id, timeout_s=60).state == "CANCELLED"
    said = log_of(owner, job.id)
    assert {f"rank {rank} was told" for rank in range(4)} <= set(said.splitlines())
    assert processes(job.id) == {}


def test_a_killed_rank_is_named_and_another_attempt_goes_on(
    owner: Client, here: RunningPlatform
) -> None:
    file = two_by_two(
        "if [ -e $AITNE_CHECKPOINTS/$RANK ]; then echo resumed $AITNE_RUN_RESTARTS; exit 0; fi;"
        " touch $AITNE_CHECKPOINTS/$RANK; echo up; exec sleep 120",
        retry={"max": 1, "on": ["failed"]},
    )
    once = owner.jobs.create({**file, "retry": {"max": 0}})
    until("all ranks are up", lambda: log_of(owner, once.id).count("up\n") == 4)
    os.kill(processes(once.id)["3"], signal.SIGKILL)
    ended = owner.jobs.wait(once.id, timeout_s=60)
    assert (ended.state, ended.exit_code) == ("FAILED", 137)
    assert ended.message == "Rank 3 on node node03 was ended by signal 9 (SIGKILL)."
    assert processes(once.id) == {}

    again = owner.jobs.create(file)
    until("all ranks are up", lambda: log_of(owner, again.id).count("up\n") == 4)
    os.kill(processes(again.id)["2"], signal.SIGKILL)
    ended = owner.jobs.wait(again.id, timeout_s=60)
    assert (ended.state, ended.attempt) == ("COMPLETED", 2)
    assert log_of(owner, again.id).count("resumed 1") == 4


def test_job_that_saves_on_signal_is_preempted_and_retried(owner: Client) -> None:
    file = two_by_two(
        "if [ -e $AITNE_CHECKPOINTS/saved ]; then echo resumed; exit 0; fi;"
        " trap 'touch $AITNE_CHECKPOINTS/saved; exit 75' USR1; echo up; while :; do sleep .05; done",
        retry={"max": 1},
    )
    job = owner.jobs.create(file)
    until("all ranks are up", lambda: log_of(owner, job.id).count("up\n") == 4)
    head = next(
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if job.id.encode() in (cmd := _argv(entry))
        and b"aitne.agent" in cmd
        and b"--node" not in cmd
    )
    os.kill(head, signal.SIGUSR1)
    ended = owner.jobs.wait(job.id, timeout_s=60)
    assert (ended.state, ended.attempt) == ("COMPLETED", 2)
    assert log_of(owner, job.id).count("resumed") == 4


def _argv(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_the_command_line_shows_ranks_and_profile(owner: Client, here: RunningPlatform) -> None:
    document = {
        "schema": 1,
        "written_at": "2026-03-01T12:00:00Z",
        "size": 4,
        "steps": 7,
        "straggler": {"rank": 2, "node": 1, "behind_s": 0.5},
        "table": [
            {
                "op": "allreduce",
                "from_bytes": 0,
                "to_bytes": 4096,
                "count": 7,
                "bytes": 99,
                "time_s": 1,
            }
        ],
    }
    file = here.home / "job.aitne.yml"
    write = f"[ $RANK != 0 ] || echo '{json.dumps(document)}' > $AITNE_RUN_DIR/profile.json"
    file.write_text(json.dumps(two_by_two(write)))
    given = ("--url", here.url)
    token = {"AITNE_TOKEN": here.token}
    planned = here.aitne("plan", "-f", str(file), *given, env=token)
    assert "4: 2 on each of 2 nodes; backend gloo" in planned.stdout
    done = here.aitne("apply", "-f", str(file), "--yes", "--json", *given, env=token)
    job = json.loads(done.stdout)
    owner.jobs.wait(job["id"], timeout_s=60)
    until(
        "the profile", lambda: here.aitne("profile", job["id"], *given, env=token).returncode == 0
    )
    shown = here.aitne("profile", job["id"], *given, env=token).stdout
    assert "rank 2 on node 1" in shown
    assert "0 B - 4 KiB" in shown
    assert (
        json.loads(here.aitne("profile", job["id"], "--json", *given, env=token).stdout)["steps"]
        == 7
    )


@pytest.mark.parametrize("backend", ["pigeon", "shm"])
def test_plan_refuses_unsupported_backend(
    here: RunningPlatform, owner: Client, backend: str
) -> None:
    file = here.home / "wrong.aitne.yml"
    file.write_text(json.dumps(two_by_two("true", distributed={"backend": backend})))
    done = here.aitne("plan", "-f", str(file), "--url", here.url, env={"AITNE_TOKEN": here.token})
    assert done.returncode != 0
    assert "distributed.backend" in done.stderr


@pytest.mark.long(third=2)
def test_session_on_two_nodes_is_ready_and_outlives_its_ranks(
    owner: Client, here: RunningPlatform
) -> None:
    start = ("session", "start", "jupyterlab", "--nodes", "2", "--yes", "--wait", "--json")
    done = here.aitne(*start)
    assert done.returncode == 0, f"{done.stderr}\n{here.logs()}"
    session = json.loads(done.stdout)
    assert (session["state"], session["nodes"]) == ("READY", ["node01", "node03"])
    connection = here.home / ".aitne" / "ranks" / session["id"] / "client.json"
    until(f"the ranks are connected: {log_of(owner, session['id'])}", connection.exists)
    until(
        "samples of both nodes",
        lambda: (
            {sample["node"] for sample in owner.jobs.metrics(session["id"])["samples"]}
            == {"node01", "node03"}
        ),
    )
    inside = here.aitne(
        "attach", session["id"], "--node", "node03", "--", "printenv", "SLURMD_NODENAME"
    )
    assert inside.stdout == "node03\n"
    (last,) = [rank for rank in json.loads(connection.read_text())["ranks"] if rank["rank"] == 1]
    os.kill(last["pid"], signal.SIGKILL)
    until("the rank is named", lambda: owner.jobs.get(session["id"]).message is not None)
    now = owner.jobs.get(session["id"])
    assert (now.state, now.message) == (
        "READY",
        "Rank 1 on node node03 was ended by signal 9 (SIGKILL). The session continues without "
        "ranks.",
    )
    assert not connection.exists()
    assert here.aitne("stop", session["id"], "--yes").returncode == 0
    assert owner.jobs.wait(session["id"], timeout_s=60).state == "CANCELLED"
    assert processes(session["id"]) == {}


def in_batch(here: RunningPlatform, notebook: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run a notebook as a job on two nodes; return the exit code of the command, and the job."""
    arguments = (str(notebook), "--nodes", "2", *options, "--yes", "--wait", "--json")
    done = here.aitne("batch", *arguments, timeout_s=600)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.long(third=2)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["optimizer", "ddp-fsdp", "sweep"])
def test_example_notebook_runs_as_a_job_on_two_nodes(
    owner: Client, here: RunningPlatform, name: str
) -> None:
    venv: tuple[str, ...] = ()
    if name != "sweep":
        for package in ("torch", "ipykernel", "ipyparallel"):
            need_package(package)
        venv = ("--venv", sys.prefix)
    code, job = in_batch(here, EXAMPLES / f"{name}.ipynb", *venv)
    assert (code, job["state"]) == (0, "COMPLETED"), log_of(owner, job["id"])
    assert job["nodes"] == ["node01", "node03"]
    assert processes(job["id"]) == {}
    assert not (here.home / ".aitne" / "ranks" / job["id"]).exists()


@pytest.mark.long(third=2)
def test_notebook_whose_rank_is_killed_names_it_and_the_cell(
    owner: Client, here: RunningPlatform
) -> None:
    cells = [
        {"cell_type": "code", "id": f"cell{number}", "metadata": {}, "outputs": [],
         "execution_count": None, "source": source}
        for number, source in enumerate(("%ranks start 2", KILLED))
    ]  # fmt: skip
    path = here.home / "killed.ipynb"
    path.write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    )
    code, job = in_batch(here, path)
    assert (code != 0, job["state"]) == (True, "FAILED"), log_of(owner, job["id"])
    assert job["message"].startswith("Cell 2 of 2 failed: RanksLostError: rank 1 on node03 was ")
    assert "2 ranks are attached already" in log_of(owner, job["id"])
    assert processes(job["id"]) == {}
