"""Tests of a process's rank, from the variables of each launcher."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.rank_detection import (
    RankTopology,
    detect_topology,
    lay_out_ranks,
    settle_topology,
)
from aitne_train.launcher.rank_processes import build_rank_variables

LAYOUTS = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def nodes_of(each: list[int]) -> list[int]:
    return [node for node, count in enumerate(each) for _ in range(count)]


def slurm(world: RankTopology, each: list[int]) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "9",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(world.rank),
        "SLURM_STEP_NUM_TASKS": str(world.size),
        "SLURM_NTASKS": str(world.size),
        "SLURM_LOCALID": str(world.local_rank),
        "SLURM_NODEID": str(nodes_of(each)[world.rank]),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, each)),
    }


def open_mpi(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "PMIX_RANK": str(rank),
    }


def torchrun(rank: int, size: int, local_rank: int, local_size: int, group: int) -> dict[str, str]:
    return {
        "TORCHELASTIC_RUN_ID": "none",
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(group),
        "GROUP_WORLD_SIZE": str(size // local_size),
    }


def test_a_process_that_nobody_has_started_is_alone() -> None:
    assert detect_topology({}) == RankTopology()


@given(LAYOUTS)
def test_a_rank_of_aitne_run_is_what_it_was_told(each: list[int]) -> None:
    for world, node in zip(lay_out_ranks(each), nodes_of(each), strict=True):
        told = {**build_rank_variables(world, node), "AITNE_RENDEZVOUS": "127.0.0.1:1"}
        assert detect_topology(told) == world
        assert (
            detect_topology({**told, **slurm(RankTopology(), [1])}) == world
        )  # an agent's own step counts for nothing


@given(LAYOUTS)
def test_slurm_tells_every_task_its_place(each: list[int]) -> None:
    for world in lay_out_ranks(each, "slurm"):
        assert detect_topology(slurm(world, each)) == world


@given(LAYOUTS)
def test_once_ranks_have_met_their_places_follow_from_their_nodes(each: list[int]) -> None:
    for world in lay_out_ranks(each, "mpi"):
        assert (
            settle_topology(RankTopology(world.rank, world.size, source="mpi"), nodes_of(each))
            == world
        )


@given(st.integers(1, 4), st.integers(1, 4))
def test_mpi_says_where_a_rank_is_on_its_node(nodes: int, local_size: int) -> None:
    for world in lay_out_ranks([local_size] * nodes, "mpi"):
        assert (
            detect_topology(open_mpi(world.rank, world.size, world.local_rank, local_size)) == world
        )


def test_mpi_that_deals_ranks_out_in_turns() -> None:
    found = [detect_topology(open_mpi(rank, 4, rank // 2, 2)) for rank in range(4)]
    assert [(each.local_rank, each.cross_rank) for each in found] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_mpich_and_its_kin() -> None:
    told = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert detect_topology(told) == RankTopology(3, 4, 1, 2, 1, 2, "mpi")
    with pytest.raises(LaunchError, match="not which one of its node"):
        detect_topology({"PMI_RANK": "3", "PMI_SIZE": "4"})


def test_srun_with_an_mpi_plugin_is_completed_by_slurm() -> None:
    for world in lay_out_ranks([2, 1], "mpi"):
        told = slurm(world, [2, 1])
        assert detect_topology({**told, "PMI_RANK": str(world.rank), "PMI_SIZE": "3"}) == world
        assert (detect_topology({**told, "PMIX_RANK": str(world.rank)})).rank == world.rank


def test_torchrun_counts_where_srun_has_started_it() -> None:
    outer = slurm(lay_out_ranks([1, 1])[1], [1, 1])
    assert detect_topology({**outer, **torchrun(3, 4, 1, 2, 1)}) == RankTopology(
        3, 4, 1, 2, 1, 2, "torchrun"
    )


def test_a_scripts_own_variables_count_where_they_say_what_slurm_says() -> None:
    world = lay_out_ranks([2, 2], "slurm")[3]
    assert detect_topology({**slurm(world, [2, 2]), "RANK": "3", "WORLD_SIZE": "4"}) == world


def test_a_batch_script_is_no_task() -> None:
    batch = {
        "SLURM_JOB_ID": "9",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "4",
        "SLURM_TASKS_PER_NODE": "4",
    }
    assert detect_topology(batch) == RankTopology()
    assert detect_topology({**batch, "SLURM_STEP_ID": str(0xFFFFFFFB)}) == RankTopology()
    assert detect_topology({**batch, "SLURM_STEP_ID": str(0xFFFFFFFA)}) == RankTopology()


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"HOROVOD_RANK": "0"}, "HOROVOD_SIZE is not set"),
        ({"HOROVOD_SIZE": "2"}, "HOROVOD_RANK is not set"),
        ({"RANK": "0"}, "WORLD_SIZE is not set"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "LOCAL_RANK and LOCAL_WORLD_SIZE are not set"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "there is no such rank"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "not the number of a rank"),
        ({"RANK": "9" * 5000, "WORLD_SIZE": "2"}, "not the number of a rank"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE is not set"),
        ({"TORCHELASTIC_RUN_ID": "a", "RANK": "0", "WORLD_SIZE": "2"}, "LOCAL_RANK is not set"),
        ({"AITNE_RENDEZVOUS": "a:1", "RANK": "0"}, "HOROVOD_RANK is not set"),
        ({**open_mpi(1, 2, 1, 2), "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, "mpirun says rank 1 of 2"),
        ({**slurm(lay_out_ranks([2])[1], [2]), "SLURM_STEP_TASKS_PER_NODE": "1"}, "contradict each other"),
    ],
)  # fmt: skip
def test_variables_that_are_half_there_or_contradict_each_other(
    environ: dict[str, str], words: str
) -> None:
    with pytest.raises(LaunchError, match=words):
        detect_topology(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"},
        {"OMPI_MCA_orte_ess_num_procs": "2"},
        {"PMI_SIZE": "2"},
        {"PMIX_RANK": "0"},
        {"MPI_LOCALNRANKS": "2"},
    ],
)
def test_rank_without_identity_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match="Start the program by aitne-run"):
        detect_topology(environ)


FAMILIES = [
    open_mpi(1, 4, 1, 2),
    torchrun(1, 4, 1, 2, 0),
    slurm(lay_out_ranks([2, 2])[1], [2, 2]),
    build_rank_variables(lay_out_ranks([2, 2])[1], 0),
    {},
]


@given(
    st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2),
    st.dictionaries(
        st.sampled_from(sorted({name for family in FAMILIES for name in family})),
        st.sampled_from(
            ["", "0", "1", "2", "4", "x", "-1", "2(x2)", "4294967291", "9" * 5000, "٣"]
        ),
        max_size=3,
    ),
)
def test_environment_gives_valid_world_or_error(
    families: list[dict[str, str]], other: dict[str, str]
) -> None:
    try:
        world = detect_topology(
            {name: value for each in [*families, other] for name, value in each.items()}
        )
    except LaunchError:
        return
    assert 0 <= world.rank < world.size
    assert 0 <= world.local_rank < world.local_size <= world.size
    assert 0 <= world.cross_rank < world.cross_size <= world.size
