"""The order of a job's nodes as its agents use it, on a machine that stands for four nodes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from aitne.core.jobs.agent_protocol import EXIT_NOT_READY
from aitne.core.models.reported_placement import ReportedPlacement
from aitne.core.ports.job_files import ProgramOutcome
from tests.support import realtime
from tests.support.agents import JOB, Job, Platform

pytestmark = realtime.PROCESSES

GIVEN = ["node01", "node02", "node03", "node04"]
INTERLEAVED = (
    "SwitchName=a Nodes=node01,node03\nSwitchName=b Nodes=node02,node04\n"
    "SwitchName=top Switches=a,b\n"
)
LOCAL = json.dumps([{"node": name, "gpus": None} for name in GIVEN])
REASON = "rank order: 4 -> 2 crossings, busiest uplink 2 -> 1"


def ranks(program: str) -> dict[str, Any]:
    launcher = (sys.executable, "-m", "aitne_train.launcher", "node", "--nodes", "4")
    place = ("--node-rank", "{node_rank}", "--ranks", "1", "--run-dir", "{run_dir}", "--job", JOB)
    agent = (sys.executable, "-I", "-m", "aitne.agent")
    return {
        "commands": ((*launcher, *place, "--bind-to", "auto", "--", "bash", "-c", program),),
        "ranks": {"nodes": 4, "ranks_per_node": 1, "agent": agent},
        "around": {"AITNE_LOCAL_NODES": LOCAL, "AITNE_NODES": "4"},
    }


def test_ranks_are_numbered_in_the_order_of_the_topology(job: Job, platform: Platform) -> None:
    (job.folder / "topology.conf").write_text(INTERLEAVED)
    program = 'echo "rank $RANK $SLURMD_NODENAME $AITNE_NODE_RANK $(head -1 $AITNE_HOSTFILE)"'
    assert job.start(url=platform.url, **ranks(program)).wait(60) == 0
    order = ["node01", "node03", "node02", "node04"]
    assert sorted(line for line in job.log.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} {name} {rank} node01 slots=1" for rank, name in enumerate(order)
    ]
    assert "aitne:" not in job.log, "the log is that of the program alone"
    assert json.loads((job.folder / "run/0/order.json").read_text()) == {
        "given": GIVEN,
        "order": order,
    }
    reports = platform.until(
        lambda found: any(each.placement and each.placement.get("bindings") for each in found)
    )
    documents = [each.placement for each in reports if each.placement]
    placement = ReportedPlacement.model_validate(documents[-1])
    assert (placement.given, placement.order) == (tuple(GIVEN), tuple(order))
    assert placement.reason == REASON
    assert placement.crossings is not None
    assert (placement.crossings.given, placement.crossings.chosen) == (4, 2)
    assert [(each.rank, each.node) for each in placement.bindings] == list(enumerate(order))
    cpus = sorted(os.sched_getaffinity(0))
    assert {each.cores for each in placement.bindings} != {None}, cpus


def test_programs_get_host_files_and_the_first_node_of_a_requested_order(
    job: Job, tmp_path: Path
) -> None:
    path = tmp_path / "order.txt"
    path.write_text("node03\nnode04\nnode01\nnode02\n")
    around = {
        "AITNE_NODES": "4",
        "SLURM_JOB_NODELIST": "node[01-04]",
        "SLURM_TASKS_PER_NODE": "2(x4)",
        "MASTER_ADDR": "node01",
    }
    show = "cat $AITNE_HOSTFILE; head -3 $AITNE_SLURM_HOSTFILE; echo $MASTER_ADDR $AITNE_NODE_RANK"
    assert job.run(show, placement={"order": f"file:{path}"}, around=around) == 0
    assert job.log.splitlines() == [
        *(f"node0{number} slots=2" for number in (3, 4, 1, 2)),
        *("node03", "node03", "node04"),
        "node03 2",
    ]
    # A wrong file: nothing is started, and the outcome names the line.
    path.write_text("node03\nnode03\n")
    (job.folder / "fence").unlink()
    assert job.run(show, placement={"order": f"file:{path}"}, around=around) == EXIT_NOT_READY
    outcome = ProgramOutcome.model_validate_json((job.folder / "outcome").read_bytes())
    assert outcome.reason == "start_failed"
    assert f"{path}, line 2: 'node03' names a host again" in (outcome.message or "")


def test_order_is_that_of_the_partitions_own_topology(job: Job, tmp_path: Path) -> None:
    """The platform knows the cluster's default topology only."""
    (job.folder / "topology.conf").write_text("SwitchName=all Nodes=node0[1-4]\n")
    program = tmp_path / "scontrol"
    program.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        "*partition*) echo PartitionName=gpu $TOPOLOGY State=UP;;\n"
        f"*) cat <<EOF\n{INTERLEAVED}EOF\nesac\n"
    )
    program.chmod(0o755)
    around = {
        "AITNE_NODES": "4",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "node[01-04]",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_TASKS_PER_NODE": "1(x4)",
    }
    show = "cut -d' ' -f1 $AITNE_HOSTFILE"
    assert job.run(show, around={**around, "TOPOLOGY": "Topology=fat"}) == 0
    assert job.log.split() == ["node01", "node03", "node02", "node04"]
    (job.folder / "fence").unlink()
    assert job.run(show, around=around) == 0
    assert job.log.split()[-4:] == GIVEN
