"""Defaults and states of partitions, as ``scontrol`` of several releases prints them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aitne.adapters.schedulers._slurm.scontrol_parser import parse_partitions
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig

RECORDED = Path(__file__).parents[2] / "assets/slurm"
MIB = 1 << 20


def _partitions(release: str) -> str:
    return (RECORDED / release / "cli/partitions.txt").read_text("utf-8")


@pytest.mark.parametrize("release", ["22.05", "24.11"])
@pytest.mark.parametrize(
    ("own", "config", "node", "cpu", "gpu"),
    [
        ({}, "DefMemPerNode = UNLIMITED", None, None, None),
        ({}, "DefMemPerCPU = 100", None, 100, None),
        ({"DefMemPerNode": "DefMemPerNode=4000"}, "DefMemPerCPU = 100", 4_000, None, None),
        ({"DefMemPerNode": "DefMemPerCPU=1500"}, "DefMemPerNode = 4000", None, 1_500, None),
        (
            {"JobDefaults": "JobDefaults=DefCpuPerGPU=4,DefMemPerGPU=8192"},
            "DefMemPerCPU = 100",
            None,
            100,
            8_192,
        ),
        ({}, "JobDefaults = DefMemPerGPU=2048", None, None, 2_048),
    ],
)
def test_default_memory_of_a_partition_is_its_own_or_the_clusters(
    release: str,
    own: dict[str, str],
    config: str,
    node: int | None,
    cpu: int | None,
    gpu: int | None,
) -> None:
    text = _partitions(release)
    for key, words in own.items():
        text = re.sub(rf" {key}=\S+", f" {words}", text)
    partition, _ = parse_partitions(text, SlurmConfig.parse(config).default_amounts)
    found = (
        partition.default_memory_per_node_bytes,
        partition.default_memory_per_cpu_bytes,
        partition.default_memory_per_gpu_bytes,
    )
    assert found == tuple(amount and amount * MIB for amount in (node, cpu, gpu))
    assert partition.default_cpus_per_gpu == (4 if "DefCpuPerGPU=4" in text else None)
    assert (partition.default_time_s, partition.max_time_s) == (3_600, 7 * 86_400)


@pytest.mark.parametrize(
    ("state", "up", "accepts"),
    [
        ("UP", True, True),
        ("DOWN", False, True),
        ("DRAIN", True, False),
        ("INACTIVE", False, False),
    ],
)
def test_partition_that_is_down_takes_jobs_and_one_that_drains_takes_none(
    state: str, up: bool, accepts: bool
) -> None:
    text = _partitions("24.11").replace("State=UP", f"State={state}")
    partition, _ = parse_partitions(text)
    assert (partition.up, partition.accepts_jobs) == (up, accepts)
