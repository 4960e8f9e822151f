"""Resources and time limit of a job, within the limits of its template and of the platform."""

from __future__ import annotations

from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.models.template import Template, TemplateResources
from aitne.core.settings import LimitSettings
from aitne.core.sizes import describe_bytes
from aitne.core.units import format_duration
from aitne.services.jobs.cluster_check import Problems, check_most

FREE = TemplateResources()
"""Default resources of a job without a template; only the platform's limits apply to them."""


def resources_of(
    file: JobFile, template: Template | None, limits: LimitSettings, problems: Problems
) -> Resources:
    """Return the number of nodes and the resources on each node that the job requests; wrong values
    are added to ``problems``.
    """
    request = file.resources
    offered = template.resources if template else FREE
    nodes = request.nodes or offered.nodes.default
    tasks, cpus_per_task = request.tasks_per_node, request.cpus_per_task
    if tasks is not None and request.cpu is not None:
        cpus_per_task = request.cpu // tasks
    cpu = request.cpu or offered.cpu.default
    if tasks is not None or cpus_per_task is not None:
        cpu = (tasks or 1) * (cpus_per_task or 1)
    memory = request.memory or offered.memory.default
    gpu = request.gpu or offered.gpu.default
    if template is not None:
        _between("resources.nodes", nodes, offered.nodes.min, offered.nodes.max, problems)
        _between("resources.cpu", cpu, offered.cpu.min, offered.cpu.max, problems)
        low, high = offered.memory.min, offered.memory.max
        if memory < low or (high is not None and memory > high):
            upper_bound = "" if high is None else f", at most {describe_bytes(high, 'down')}"
            problems.add(
                "resources.memory",
                f"template {template.name} does not offer that",
                describe_bytes(memory),
                f"at least {describe_bytes(low, 'up')}{upper_bound}",
            )
        check_most("resources.gpu", gpu.count, offered.gpu.max, problems, shown=str(gpu))
    check_most("resources.nodes", nodes, limits.max_nodes, problems)
    if gpu.count == 0 and gpu.type is not None:
        gpu = GpuRequest(count=0)
    gres = request.gres or {}
    return Resources(
        nodes=nodes,
        cpu=cpu,
        tasks_per_node=tasks,
        cpus_per_task=cpus_per_task,
        memory_bytes=memory,
        gpu=gpu,
        gres=gres,
        sbatch_options=request.sbatch_options,
    )


def _between(name: str, value: int, low: int, high: int | None, problems: Problems) -> None:
    if value < low:
        problems.add(name, f"{value} is less than this template takes", value, f"at least {low}")
    check_most(name, value, high, problems)


def duration_of(
    file: JobFile, template: Template | None, limits: LimitSettings, problems: Problems
) -> int:
    """Return the time limit of the job in seconds; a wrong value is added to ``problems``."""
    offered = (template.resources if template else FREE).max_duration
    max_duration = limits.max_duration
    if template is not None and offered.max is not None:
        max_duration = min(max_duration, offered.max)
    if file.max_duration is None:
        return min(offered.default, max_duration)
    if file.max_duration > max_duration:
        problems.add(
            "max_duration",
            "it is longer than allowed",
            format_duration(file.max_duration),
            f"at most {format_duration(max_duration)}",
        )
    return file.max_duration
