"""Amounts that Slurm gives jobs that request none."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.cluster.job_count_limits import max_array_tasks, max_live_jobs
from aitne.core.cluster.partition_defaults import NO_LIMIT_S, QueueDefaults
from aitne.core.models.cluster import Cluster, Partition
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.settings import LimitSettings, Settings
from tests.unit.core.cluster.test_queues import node

MIB = 1 << 20


def defaults(
    longest_s: int | None = None, *, alone: bool = False, **partition: Any
) -> QueueDefaults:
    """Return the defaults of a cluster whose default partition has these values."""
    chosen = Partition(name="gpu", default=True, nodes=("n1", "n2"), **partition)
    large = node("n2").model_copy(update={"cpu_total": 16, "memory_total_bytes": 64 << 30})
    cluster = Cluster(nodes=(node("n1"), large), partitions=(chosen, Partition(name="other")))
    return QueueDefaults.from_options(SlurmOptions(exclusive=alone), cluster, longest_s)


PER_NODE = {"default_memory_per_node_bytes": 4_000 * MIB}
PER_CPU = {"default_memory_per_cpu_bytes": 1_500 * MIB}
PER_GPU = {"default_memory_per_gpu_bytes": 8_192 * MIB}


@pytest.mark.parametrize(
    ("partition", "request_", "alone", "mib"),
    [
        (PER_NODE, {"cpu": 8}, False, 4_000),
        (PER_CPU, {"cpu": 8}, False, 12_000),
        # An exclusive job has all CPUs of its nodes.
        (PER_CPU, {"cpu": 1}, True, 12_000),
        (PER_CPU | {"exclusive": True}, {"cpu": 1}, False, 12_000),
        (PER_CPU | PER_GPU, {"gpu": GpuRequest(count=2)}, False, 16_384),
        (PER_CPU | PER_GPU, {"cpu": 2}, False, 3_000),
        (PER_CPU | {"default_cpus_per_gpu": 4}, {"gpu": GpuRequest(count=2)}, False, 12_000),
        # Without a default, a job gets all memory of its nodes.
        ({}, {"cpu": 8}, False, 16 << 10),
        ({}, {"cpu": 16}, False, 64 << 10),
    ],
)
def test_memory_by_default_is_that_of_the_partition(
    partition: dict[str, Any], request_: dict[str, Any], alone: bool, mib: int
) -> None:
    found = defaults(alone=alone, **partition)
    assert found.memory_bytes(Resources(**request_)) == mib * MIB


@pytest.mark.parametrize(
    ("request_", "cpus"),
    [
        ({"gpu": GpuRequest(count=2)}, 8),
        ({"gpu": GpuRequest(count=2), "tasks_per_node": 4, "cpu": 4}, 8),
        ({"gpu": GpuRequest(count=2), "tasks_per_node": 12, "cpu": 12}, 12),
        ({"gpu": GpuRequest(count=2), "cpu": 3}, 3),
        ({"gpu": GpuRequest(count=2), "cpus_per_task": 1}, 1),
        ({}, 1),
    ],
)
def test_job_with_gpus_gets_the_cpus_of_the_partition_unless_it_names_them(
    request_: dict[str, Any], cpus: int
) -> None:
    assert defaults(default_cpus_per_gpu=4).cpus_per_node(Resources(**request_)) == cpus
    assert defaults().cpus_per_node(Resources(**request_)) == request_.get("cpu", 1)


@pytest.mark.parametrize(
    ("partition", "longest_s", "seconds"),
    [
        ({"default_time_s": 3_600, "max_time_s": 86_400}, None, 3_600),
        ({"max_time_s": 86_400}, None, 86_400),
        ({}, None, NO_LIMIT_S),
        # Without a DefaultTime, Slurm gives a job the longest time that its account permits.
        ({"max_time_s": 86_400}, 7_200, 7_200),
        ({"max_time_s": 7_200}, 86_400, 7_200),
        ({"default_time_s": 3_600}, 600, 3_600),
    ],
)
def test_time_limit_by_default_is_that_of_the_partition(
    partition: dict[str, Any], longest_s: int | None, seconds: int
) -> None:
    assert defaults(longest_s, **partition).time_limit_s == seconds


def test_defaults_are_those_of_the_first_named_partition_or_unknown() -> None:
    partitions = (Partition(name="a", max_time_s=60), Partition(name="b", max_time_s=120))
    cluster = Cluster(partitions=partitions)
    assert QueueDefaults.from_options(SlurmOptions(partition="b,a"), cluster).time_limit_s == 120
    unknown = QueueDefaults.from_options(SlurmOptions(), Cluster())
    assert (unknown.time_limit_s, unknown.memory_bytes(Resources())) == (None, 0)


@pytest.mark.parametrize(
    ("limits", "cluster", "tasks", "live"),
    [
        ({}, {}, 1_000, 2_000),
        ({}, {"max_array_size": 1_001, "max_jobs": 10_000}, 1_001, 11_001),
        ({}, {"max_array_size": 4_000_001, "max_jobs": 10_000}, 10_000, 4_010_001),
        (
            {"max_array_tasks": 20, "max_live_jobs": 30},
            {"max_array_size": 1_001, "max_jobs": 9},
            20,
            30,
        ),
    ],
)
def test_limits_are_the_sites_or_slurms(
    limits: dict[str, int], cluster: dict[str, int], tasks: int, live: int
) -> None:
    settings = Settings(limits=LimitSettings(**limits))
    state = Cluster(**cluster)
    assert max_array_tasks(settings, state) == tasks
    assert max_live_jobs(settings, state) == live
