"""Enforcement of a job's limits of memory and CPUs, and its description in the plan.

Has no side effects.
"""

from __future__ import annotations

from collections.abc import Sequence

from aitne.core.byte_size_format import describe_bytes
from aitne.core.cluster.partition_defaults import QueueDefaults
from aitne.core.models.cluster import Cluster, Holder
from aitne.core.models.job import HeldBy, JobSpec
from aitne.core.models.resources import MemoryRequest
from aitne.core.ports.runtime import RuntimeLimits
from aitne.core.settings import Settings

ENFORCING_RUNTIMES = frozenset({"docker"})
"""Runtimes whose containers are started by a daemon, outside the job's cgroup: only the runtime can
enforce limits of these containers.
"""
_MEMORY, _CPU = "memory", "cpu"


def assign_limit_enforcement(
    spec: JobSpec, cluster: Cluster, settings: Settings
) -> tuple[JobSpec, tuple[str, ...]]:
    """Decide which component enforces the job's limits of memory and CPUs.

    The scheduler enforces a limit if the current state of the cluster permits it; otherwise the
    agent enforces it with a cgroup, if it may create one. Runtimes that enforce limits themselves
    take precedence over both.

    Returns:
        The specification with these decisions, and two sentences for ``Plan.limits``: the first
            about memory, the second about CPUs.
    """
    scheduler = settings.capabilities.title
    cpus = spec.resources.cpu
    if settings.capabilities.decides_amounts:
        cpus = QueueDefaults.from_options(spec.slurm, cluster).cpus_per_node(spec.resources)
    size = _describe_memory(spec)
    requested = spec.resources.memory_request is MemoryRequest.AMOUNT
    count = f"{cpus} CPU{'' if cpus == 1 else 's'}"
    if spec.runtime in ENFORCING_RUNTIMES:
        name = spec.runtime.capitalize()
        held_by = HeldBy(runtime=True)
        sentences = (
            f"Memory: {name} limits the job to {size} (cgroup).",
            f"CPUs: {name} limits the job to {count} (cgroup).",
        )
    else:
        memory, cpu = cluster.memory_held_by, cluster.cpus_held_by
        by_agent = cluster.agent_cgroups
        held_by = HeldBy(
            # Only the scheduler knows the amount on which it decides.
            agent_memory=requested
            and memory is not Holder.CGROUP
            and _can_agent_enforce(by_agent, _MEMORY) is not False,
            # An exclusive job has all CPUs of its nodes, and only the scheduler knows how many; so it
            # does of a job that leaves them to the scheduler.
            agent_cpus=cpu is not Holder.CGROUP
            and _can_agent_enforce(by_agent, _CPU) is not False
            and not spec.slurm.exclusive
            and cpus == spec.resources.cpu,
        )
        sentences = (
            _describe_enforcement(
                "Memory",
                size,
                scheduler,
                memory,
                requested and _can_agent_enforce(by_agent, _MEMORY),
            ),
            _describe_enforcement(
                "CPUs", count, scheduler, cpu, _can_agent_enforce(by_agent, _CPU)
            ),
        )
    return spec.model_copy(update={"held_by": held_by}), sentences


def _describe_memory(spec: JobSpec) -> str:
    """Return the job's memory on each node as part of a sentence."""
    resources = spec.resources
    if resources.memory_request is MemoryRequest.ALL:
        return "all memory of its nodes"
    return describe_bytes(resources.memory_bytes) if resources.memory_bytes else "its memory"


def split_limits(spec: JobSpec) -> tuple[RuntimeLimits, RuntimeLimits]:
    """Return the limits that the runtime enforces and those that the agent enforces, for a
    specification that ``assign_limit_enforcement`` returned.
    """
    memory, cpus, held_by = spec.resources.memory_bytes, spec.resources.cpu, spec.held_by
    return (
        RuntimeLimits(memory_bytes=memory or None, cpus=cpus)
        if held_by.runtime
        else RuntimeLimits(),
        RuntimeLimits(
            memory_bytes=memory if held_by.agent_memory else None,
            cpus=cpus if held_by.agent_cpus else None,
        ),
    )


def _can_agent_enforce(by_agent: Sequence[str] | None, limit: str) -> bool | None:
    """Return whether the agent can enforce ``limit``, which is ``memory`` or ``cpu``.

    None if that is known only on the node, where the agent then tries it.
    """
    return None if by_agent is None else limit in by_agent


def _describe_enforcement(
    resource: str, amount: str, scheduler: str, held_by: Holder, by_agent: bool | None
) -> str:
    if held_by is Holder.CGROUP:
        return f"{resource}: {scheduler} limits the job to {amount} (cgroup)."
    if by_agent:
        return f"{resource}: a cgroup of the job limits it to {amount}."
    fallback = (
        " Where its node lets a job create a cgroup, that limits it." if by_agent is None else ""
    )
    if held_by is Holder.SAMPLING:
        return (
            f"{resource}: {scheduler} checks from time to time and ends the job when it takes more than "
            f"{amount}.{fallback}"
        )
    if held_by is Holder.BINDING:
        return f"{resource}: {scheduler} binds the job to {amount}, which a program can undo.{fallback}"
    return f"{resource}: the limit of {amount} is not enforced; {scheduler} only reserves it.{fallback}"
