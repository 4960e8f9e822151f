"""Tests of the division of a job's limits between runtime, agent and scheduler."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from aitne.core.models.cluster import Cluster, Holder
from aitne.core.models.job import JobSpec
from aitne.core.models.resources import Resources
from aitne.core.ports.runtime import RuntimeLimits
from aitne.core.settings import Settings
from aitne.services.jobs.resource_limit_enforcement import assign_limit_enforcement, split_limits
from tests.support.jobs import make_spec

GIB = 1 << 30


class Told(NamedTuple):
    """The limits that runtime and agent enforce, and the sentences for the user."""

    runtime: RuntimeLimits
    agent: RuntimeLimits
    sentences: tuple[str, ...]


def found(cluster: Cluster, scheduler: str = "local", runtime: str = "bare") -> Told:
    spec = make_spec(resources=Resources(cpu=2, memory_bytes=2 * GIB), runtime=runtime)
    held, sentences = assign_limit_enforcement(spec, cluster, Settings(scheduler=scheduler))
    return Told(*split_limits(held), sentences)


def test_a_scheduler_with_cgroups_needs_nobody_else() -> None:
    got = found(Cluster(memory_held_by=Holder.CGROUP, cpus_held_by=Holder.CGROUP), "slurm")
    assert (got.agent, got.runtime) == (RuntimeLimits(), RuntimeLimits())
    assert got.sentences == (
        "Memory: Slurm limits the job to 2 GiB (cgroup).",
        "CPUs: Slurm limits the job to 2 CPUs (cgroup).",
    )


def test_the_agent_holds_what_the_local_scheduler_does_not() -> None:
    cluster = Cluster(memory_held_by=Holder.SAMPLING, agent_cgroups=("cpu", "memory"))
    got = found(cluster)
    assert got.agent == RuntimeLimits(memory_bytes=2 * GIB, cpus=2)
    assert got.sentences == (
        "Memory: a cgroup of the job limits it to 2 GiB.",
        "CPUs: a cgroup of the job limits it to 2 CPUs.",
    )


def test_where_no_cgroup_can_be_made_the_plan_says_who_is_left() -> None:
    got = found(Cluster(memory_held_by=Holder.SAMPLING, agent_cgroups=()))
    assert got.agent == RuntimeLimits()
    memory, cpus = got.sentences
    assert memory == (
        "Memory: the local scheduler checks from time to time and ends the job when it takes more "
        "than 2 GiB."
    )
    assert cpus.startswith("CPUs: the limit of 2 CPUs is not enforced")


@pytest.mark.parametrize(
    ("holder", "begins"),
    [
        (Holder.NOBODY, "CPUs: the limit of 2 CPUs is not enforced"),
        (Holder.BINDING, "CPUs: Slurm binds the job to 2 CPUs"),
    ],
)
def test_on_slurm_nobody_knows_the_nodes_before(holder: Holder, begins: str) -> None:
    got = found(Cluster(cpus_held_by=holder), "slurm")
    assert got.agent == RuntimeLimits(memory_bytes=2 * GIB, cpus=2)
    assert got.sentences[1].startswith(begins)
    assert all("Where its node lets a job create a cgroup" in each for each in got.sentences)


def test_a_runtime_with_a_daemon_holds_its_containers_itself() -> None:
    got = found(Cluster(agent_cgroups=("cpu", "memory")), runtime="docker")
    assert got.runtime == RuntimeLimits(memory_bytes=2 * GIB, cpus=2)
    assert got.agent == RuntimeLimits()
    assert got.sentences[0] == "Memory: Docker limits the job to 2 GiB (cgroup)."


def test_an_older_look_at_the_cluster_promises_nothing() -> None:
    old = Cluster.model_validate({"nodes": []})
    assert found(old, "slurm").sentences[0].startswith("Memory: the limit of 2 GiB is not enforced")


@pytest.mark.parametrize("runtime", ["bare", "docker"])
def test_a_job_keeps_who_holds_it(runtime: str) -> None:
    """The cluster is looked at when the job is accepted; its files are written later."""
    spec = make_spec(resources=Resources(cpu=2, memory_bytes=2 * GIB), runtime=runtime)
    cluster = Cluster(memory_held_by=Holder.SAMPLING, agent_cgroups=("memory",))
    got = found(cluster, runtime=runtime)
    held, sentences = assign_limit_enforcement(spec, cluster, Settings())
    stored = JobSpec.model_validate_json(held.model_dump_json())
    assert (split_limits(stored), sentences) == ((got.runtime, got.agent), got.sentences)
