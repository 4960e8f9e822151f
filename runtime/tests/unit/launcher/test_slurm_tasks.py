"""Slurm's variables about tasks in the environment of ranks that one task has started."""

from __future__ import annotations

import pytest

from aitne_train.launcher import slurm_task_variables
from aitne_train.launcher.rank_detection import detect_topology, lay_out_ranks

AGENT = {
    "PATH": "/bin",
    "SLURM_JOB_ID": "7",
    "SLURM_TASKS_PER_NODE": "8(x2)",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "2",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_GTIDS": "1",
}


@pytest.mark.parametrize("ranks", [[2, 2], [3, 1], [1, 1, 2]])
def test_ranks_of_an_agent_are_tasks_of_their_own(ranks: list[int]) -> None:
    nodes = [node for node, count in enumerate(ranks) for _ in range(count)]
    for world in lay_out_ranks(ranks):
        found = slurm_task_variables.build_rank_environment(AGENT, world, nodes[world.rank], ranks)
        assert found["SLURM_PROCID"] == str(world.rank)
        assert found["SLURM_LOCALID"] == str(world.local_rank)
        assert found["SLURM_NODEID"] == str(nodes[world.rank])
        assert found["SLURM_NTASKS"] == found["SLURM_NPROCS"] == str(sum(ranks))
        assert found["SLURM_TASKS_PER_NODE"] == "8(x2)"
        assert found["PATH"] == "/bin"
        # What srun would have set for this rank.
        step = detect_topology(found)
        assert (step.source, step.rank, step.size) == ("slurm", world.rank, world.size)
        assert (step.local_rank, step.local_size) == (world.local_rank, world.local_size)
    last = slurm_task_variables.build_rank_environment(
        AGENT, lay_out_ranks(ranks)[-1], len(ranks) - 1, ranks
    )
    assert last.get("SLURM_NTASKS_PER_NODE") == ("2" if ranks == [2, 2] else None)
    own = range(sum(ranks) - ranks[-1], sum(ranks))
    assert last["SLURM_GTIDS"] == ",".join(map(str, own))


def test_variables_of_a_batch_script_without_tasks_are_not_completed() -> None:
    script = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    found = slurm_task_variables.build_rank_environment(script, lay_out_ranks([2])[1], 0, [2])
    assert found == {**script, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
    assert slurm_task_variables.build_rank_environment(
        {"A": "b"}, lay_out_ranks([2])[1], 0, [2]
    ) == {"A": "b"}


def test_number_of_tasks_alone_is_completed() -> None:
    """Lightning takes SLURM_NTASKS for a step and then needs the task's own place."""
    found = slurm_task_variables.build_rank_environment(
        {"SLURM_NTASKS": "1"}, lay_out_ranks([2, 2])[3], 1, [2, 2]
    )
    assert found == {
        "SLURM_NTASKS": "4",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
    }
