"""The development cluster of a bench with Slurm."""

from __future__ import annotations

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.schedulers import Bench
from tests.support.slurm import run_as


def cluster_of(bench: Bench) -> DevCluster:
    """Return the development cluster whose Slurm the bench has."""
    assert bench.stand.slurm is not None
    return bench.stand.slurm


def slurm_says(bench: Bench, *argv: str) -> str:
    """Return what a command of Slurm prints for its operator."""
    cluster = cluster_of(bench)
    return run_as(cluster, cluster.operator, *argv)
