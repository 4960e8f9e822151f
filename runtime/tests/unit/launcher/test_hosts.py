"""Host lists, host files, and the counts that Slurm writes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.hosts import (
    Host,
    parse_hostfile,
    parse_hosts,
    parse_task_counts,
    spread_ranks,
)
from aitne_train.launcher.slurm_and_mpi_queries import (
    choose_pmix,
    parse_mpi_plugins,
    read_allocation,
)

NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
HOSTS = st.lists(
    st.builds(Host, NAMES, st.integers(1, 9)),
    min_size=1,
    max_size=6,
    unique_by=lambda each: each.name,
)


def in_slurms_words(each: list[int]) -> str:
    parts: list[tuple[int, int]] = []
    for count in each:
        if parts and parts[-1][0] == count:
            parts[-1] = (count, parts[-1][1] + 1)
        else:
            parts.append((count, 1))
    return ",".join(str(count) if times == 1 else f"{count}(x{times})" for count, times in parts)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=30))
@example([2, 2, 2, 1])
def test_counts_are_read_as_slurm_writes_them(each: list[int]) -> None:
    assert parse_task_counts(in_slurms_words(each)) == each


@pytest.mark.parametrize(
    "text", ["", "2(x3", "2(x0)", "a", "2,,1", "-1", "2 3", "٣", "9(x9999999999)"]
)
def test_invalid_task_count_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="not a list of tasks per node"):
        parse_task_counts(text)


@given(HOSTS)
def test_a_host_list_and_a_host_file_say_the_same(found: list[Host]) -> None:
    assert parse_hosts(",".join(f"{host.name}:{host.ranks}" for host in found)) == found
    lines = [f"{host.name} slots={host.ranks}  # a comment" for host in found]
    assert parse_hostfile("\n".join(["# nodes", "", *lines])) == found


def test_a_host_without_a_number_takes_one_rank() -> None:
    assert parse_hosts("a,b:2") == [Host("a", 1), Host("b", 2)]
    assert parse_hostfile("a\nb:2\nc max_slots=4 slots=3\n") == [
        Host("a", 1),
        Host("b", 2),
        Host("c", 3),
    ]


@pytest.mark.parametrize(
    "text", ["", "a:", "a:0", "a:-1", "a:x", ":2", "a b:2", "-o evil:1", "a;b:1", "a:1,"]
)
def test_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        parse_hosts(text)


@pytest.mark.parametrize(
    "text", ["", "# nothing", "a slots", "a slots=two", "a 2", "a slots=1\na slots=2"]
)
def test_invalid_host_file_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        parse_hostfile(text)


@given(HOSTS, st.integers(1, 60))
def test_ranks_fill_hosts_in_the_order_given(found: list[Host], size: int) -> None:
    room = sum(host.ranks for host in found)
    if size > room:
        with pytest.raises(LaunchError, match=f"the hosts take {room}"):
            spread_ranks(found, size)
        return
    taken = spread_ranks(found, size)
    assert sum(host.ranks for host in taken) == size
    assert [host.name for host in taken] == [host.name for host in found[: len(taken)]]
    assert all(one == other for one, other in zip(taken[:-1], found, strict=False))


def test_all_of_a_slurm_job_unless_fewer_are_asked_for() -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "4"}
    assert read_allocation(job) == [Host("n1", 4)]
    assert read_allocation({}) is None


# What srun --mpi=list prints in Slurm 22.05 and 24.11.
OLD = "MPI plugin types are...\n\tnone\n\tpmi2\n\tcray_shasta\n\tpmix\n\tpmix_v4\n"
OLD_PLUGIN_LINES = "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: openmpi\n"
NEW = "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4,pmix_v5\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (OLD, ["none", "pmi2", "cray_shasta", "pmix", "pmix_v4"]),
        (OLD_PLUGIN_LINES, ["none", "pmi2", "openmpi"]),
        (NEW, ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4", "pmix_v5"]),
    ],
)
def test_kinds_of_mpi_are_asked_of_slurm(text: str, found: list[str]) -> None:
    assert parse_mpi_plugins(text) == found


def test_pmix_is_not_assumed() -> None:
    assert choose_pmix(["none", "pmix_v3", "pmix_v4"]) == "pmix_v4"
    assert choose_pmix(["pmix", "pmix_v4"]) == "pmix"
    with pytest.raises(LaunchError, match=r"no plug-in for it .*none, pmi2"):
        choose_pmix(["none", "pmi2"])
