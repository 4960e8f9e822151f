from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aitne.core.cluster.partition_check import NodeSelection, select_partitions
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState, Partition, Reservation
from aitne.core.models.common_job_fields import SlurmOptions

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def node(name: str, *features: str) -> Node:
    return Node(
        name=name,
        state=NodeState.IDLE,
        cpu_total=8,
        cpu_used=0,
        memory_total_bytes=16 << 30,
        memory_used_bytes=0,
        gpus=(GpuCount(type="h200", total=4, used=0),),
        features=features,
        seen_at=NOW,
    )


CLUSTER = Cluster(
    nodes=(node("n1", "nvlink", "ib"), node("n2", "nvlink"), node("n3")),
    partitions=(
        Partition(name="gpu", default=True, nodes=("n1", "n2", "n3")),
        Partition(name="debug", nodes=("n1",), max_time_s=1_800, max_nodes=1),
        Partition(name="big", nodes=("n1", "n2"), min_nodes=2, allow_accounts=("vision",)),
        Partition(name="down", up=False, nodes=("n3",)),
        Partition(name="drain", accepts_jobs=False, nodes=("n3",)),
        Partition(name="inactive", up=False, accepts_jobs=False, nodes=("n3",)),
    ),
    qos=("normal", "short"),
    reservations=(Reservation(name="course"),),
    max_array_size=1_001,
)


def choose(cluster: Cluster = CLUSTER, **options: Any) -> NodeSelection:
    facts: dict[str, Any] = {
        "project": "ml",
        "wanted_nodes": 1,
        "max_duration_s": 3_600,
        "array": None,
        "extra_allowed": ["--wckey", "--licenses"],
    }
    for name in facts:
        if name in options:
            facts[name] = options.pop(name)
    return select_partitions(SlurmOptions(**options), cluster, **facts)


def test_the_default_partition_gives_its_nodes() -> None:
    found = choose()
    assert not found.problems
    assert [each.name for each in found.nodes] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("options", "field", "says"),
    [
        ({"partition": "gpus"}, "slurm.partition", "gpu"),
        ({"partition": "drain"}, "slurm.partition", "takes no new jobs now (its state is DRAIN)"),
        ({"partition": "inactive"}, "slurm.partition", "its state is INACTIVE"),
        ({"partition": "debug"}, "max_duration", "30m"),
        ({"partition": "debug", "max_duration_s": 60, "wanted_nodes": 2}, "resources.nodes", "1"),
        ({"partition": "big", "project": "vision"}, "resources.nodes", "2"),
        ({"partition": "big", "wanted_nodes": 2}, "slurm.partition", "ml"),
        ({"qos": "gold"}, "slurm.qos", "gold"),
        ({"reservation": "exam"}, "slurm.reservation", "exam"),
        ({"constraint": "nvlonk"}, "slurm.constraint", "nvlonk"),
        ({"constraint": "nvlink&optane"}, "slurm.constraint", "optane"),
        ({"extra": ("--uid=0",)}, "slurm.extra", "--uid"),
        ({"extra": ("--licenses=x:1",)}, "slurm.extra", "slurm.licenses"),
        ({"array": "0-1001"}, "array", "1001"),
    ],
)
def test_option_that_slurm_would_refuse_is_named(options: Any, field: str, says: str) -> None:
    found = choose(**options)
    assert [problem.field for problem in found.problems] == [field]
    problem = found.problems[0]
    assert says in f"{problem.message} {problem.value}"
    assert problem.allowed


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "debug", "max_duration_s": 1_800},
        {"partition": "debug,gpu"},
        {"partition": "big", "project": "vision", "wanted_nodes": 2},
        {"partition": "big", "account": "vision", "wanted_nodes": 2},
        {"qos": "short", "reservation": "course", "extra": ("--wckey=x",)},
        {"array": "0-1000"},
    ],
)
def test_options_that_slurm_accepts_pass(options: Any) -> None:
    assert not choose(**options).problems


@pytest.mark.parametrize(
    ("constraint", "names"),
    [
        ("nvlink", ["n1", "n2"]),
        ("nvlink&ib", ["n1"]),
        ("nvlink,ib", ["n1"]),
        ("nvlink|ib", ["n1", "n2", "n3"]),
        ("[nvlink*2&ib*1]", ["n1", "n2", "n3"]),
    ],
)
def test_a_constraint_chooses_nodes_where_it_is_a_plain_list(
    constraint: str, names: list[str]
) -> None:
    assert [each.name for each in choose(constraint=constraint).nodes] == names


def test_options_pass_while_cluster_is_unknown() -> None:
    options = {"partition": "x", "qos": "y", "reservation": "z", "constraint": "w"}
    assert not choose(Cluster(), **options).problems


@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": "gpu\n#SBATCH --uid=0"},
        {"partition": "--gpu"},
        {"qos": "a b"},
        {"account": "ml;rm"},
        {"constraint": "a\nb"},
        {"reservation": "x" * 65},
        {"signal": "USR1"},
        {"signal": "USR1@0"},
        {"extra": ["-p gpu"]},
        {"extra": ["--comment=a\nb"]},
        {"extra": ["--Comment=a"]},
        {"nodelist": "n1"},
    ],
)
def test_a_slurm_section_takes_words_and_no_lines(wrong: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SlurmOptions.model_validate(wrong)
