"""Resources and time limit of a job, within the limits of its template and of the platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aitne.core.cluster.queue_defaults import NO_LIMIT_S, QueueDefaults, whole_memory_bytes
from aitne.core.models.job import JobSpec
from aitne.core.models.job_file import JobFile
from aitne.core.models.node import Cluster, Node
from aitne.core.models.resources import ALL, GpuRequest, MemoryRequest, Resources
from aitne.core.models.template import Template, TemplateResources
from aitne.core.settings import LimitSettings, Settings
from aitne.core.sizes import describe_bytes
from aitne.core.units import format_duration
from aitne.services.jobs.cluster_check import Problems, check_most

_FREE = TemplateResources()
"""Resources of a job without a template; only the platform's limits apply to them."""
_MEMORY = 2 << 30
_DURATION_S = 4 * 3_600
"""Default memory on each node and time limit with a scheduler that has no defaults of its own."""


def resources_of(
    file: JobFile,
    template: Template | None,
    limits: LimitSettings,
    problems: Problems,
    *,
    queue: QueueDefaults | None,
    nodes: Sequence[Node],
) -> Resources:
    """Return the number of nodes and the resources on each node that the job requests; wrong values
    are added to ``problems``.

    Args:
        queue: defaults that the scheduler applies to jobs; None: it has none.
        nodes: nodes of the cluster.
    """
    request = file.resources
    offered = template.resources if template else _FREE
    count = request.nodes or offered.nodes.default
    tasks, cpus_per_task = request.tasks_per_node, request.cpus_per_task
    if tasks is not None and request.cpu is not None:
        cpus_per_task = request.cpu // tasks
    cpu = request.cpu or offered.cpu.default
    if tasks is not None or cpus_per_task is not None:
        cpu = (tasks or 1) * (cpus_per_task or 1)
    memory = request.memory or offered.memory.default
    if memory is None and queue is None:
        memory = _MEMORY
    gpu = request.gpu or offered.gpu.default
    if template is not None:
        _between("resources.nodes", count, offered.nodes.min, offered.nodes.max, problems)
        _between("resources.cpu", cpu, offered.cpu.min, offered.cpu.max, problems)
        _check_memory(memory, template, problems)
        check_most("resources.gpu", gpu.count, offered.gpu.max, problems, shown=str(gpu))
    check_most("resources.nodes", count, limits.max_nodes, problems)
    if gpu.count == 0 and gpu.type is not None:
        gpu = GpuRequest(count=0)
    gres = request.gres or {}
    resources = Resources(
        nodes=count,
        cpu=cpu,
        tasks_per_node=tasks,
        cpus_per_task=cpus_per_task,
        memory_bytes=memory if isinstance(memory, int) else 0,
        memory_request=MemoryRequest.AMOUNT,
        gpu=gpu,
        gres=gres,
        sbatch_options=request.sbatch_options,
    )
    if isinstance(memory, int):
        return resources
    if queue is None:
        return resources.model_copy(update={"memory_bytes": whole_memory_bytes(resources, nodes)})
    return resources.model_copy(update=_decided(resources, queue, whole=memory == ALL))


def _check_memory(
    memory: int | Literal["all"] | None, template: Template, problems: Problems
) -> None:
    low, high = template.resources.memory.min, template.resources.memory.max
    if memory is None or (memory == ALL and high is None):
        return
    if memory == ALL or memory < low or (high is not None and memory > high):
        upper_bound = "" if high is None else f", at most {describe_bytes(high, 'down')}"
        problems.add(
            "resources.memory",
            f"template {template.name} does not offer that",
            memory if memory == ALL else describe_bytes(memory),
            f"at least {describe_bytes(low, 'up')}{upper_bound}",
        )


def _between(name: str, value: int, low: int, high: int | None, problems: Problems) -> None:
    if value < low:
        problems.add(name, f"{value} is less than this template takes", value, f"at least {low}")
    check_most(name, value, high, problems)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Time limit of a job."""

    seconds: int
    requested: bool = True
    """False: the scheduler decides, and is expected to apply ``seconds``."""
    note: str | None = None
    """Note for the user about the limit, as a sentence."""


def duration_of(
    file: JobFile,
    template: Template | None,
    limits: LimitSettings,
    problems: Problems,
    *,
    queue: QueueDefaults | None,
) -> TimeLimit:
    """Return the time limit of the job; a wrong value is added to ``problems``.

    ``queue`` are the defaults that the scheduler applies to jobs; None: it has none.
    """
    offered = (template.resources if template else _FREE).max_duration
    max_duration = limits.max_duration
    if template is not None and offered.max is not None:
        max_duration = min(max_duration, offered.max)
    if file.max_duration is None and offered.default is None and queue is not None:
        return _default_limit(queue, max_duration)
    if file.max_duration is None:
        return TimeLimit(min(offered.default or _DURATION_S, max_duration))
    if file.max_duration > max_duration:
        problems.add(
            "max_duration",
            "it is longer than allowed",
            format_duration(file.max_duration),
            f"at most {format_duration(max_duration)}",
        )
    return TimeLimit(file.max_duration)


def with_defaults(
    spec: JobSpec, settings: Settings, cluster: Cluster, longest_s: int | None
) -> JobSpec:
    """Return the specification of an earlier job with the amounts that the scheduler would decide on
    now. ``longest_s`` is the longest time that the job's account and QOS permit; None: any.
    """
    resources, update = spec.resources, dict[str, object]()
    queue = QueueDefaults.of(spec.slurm, cluster, longest_s)
    decides = settings.capabilities.decides_amounts
    if resources.memory_request is not MemoryRequest.AMOUNT:
        fields = (
            _decided(resources, queue, whole=resources.memory_request is MemoryRequest.ALL)
            if decides
            else {"memory_bytes": _MEMORY, "memory_request": MemoryRequest.AMOUNT}
        )
        update["resources"] = resources.model_copy(update=fields)
    if not spec.max_duration_requested:
        longest = settings.limits.max_duration
        limit = _default_limit(queue, longest) if decides else TimeLimit(min(_DURATION_S, longest))
        update |= {"max_duration_s": limit.seconds, "max_duration_requested": limit.requested}
    return spec.model_copy(update=update)


def _decided(resources: Resources, queue: QueueDefaults, *, whole: bool) -> dict[str, object]:
    """Return the fields about memory of a job that requests all memory of its nodes (``whole``), or
    none.
    """
    if whole:
        memory = whole_memory_bytes(resources, queue.nodes)
        return {"memory_bytes": memory, "memory_request": MemoryRequest.ALL}
    return {
        "memory_bytes": queue.memory_bytes(resources),
        "memory_request": MemoryRequest.DEFAULT,
    }


def cpu_notes(resources: Resources, queue: QueueDefaults | None) -> tuple[str, ...]:
    """Return a note for the user if the scheduler gives a job with GPUs more CPUs than it names.

    ``queue`` are the defaults that the scheduler applies to jobs; None: it has none.
    """
    if queue is None or (cpus := queue.cpus(resources)) == resources.cpu:
        return ()
    return (f"By the partition's default for each GPU, the job gets {cpus} CPUs on each node.",)


def _default_limit(queue: QueueDefaults, max_duration: int) -> TimeLimit:
    """Return the time limit of a job that leaves it to the scheduler."""
    seconds = queue.time_limit_s
    if seconds is None or seconds <= max_duration:
        return TimeLimit(seconds or max_duration, requested=False)
    usual = "no time limit" if seconds >= NO_LIMIT_S else format_duration(seconds)
    return TimeLimit(
        max_duration,
        note=f"Its time limit is {format_duration(max_duration)}, the longest that the site permits "
        f"on this platform; by default the partition would give it {usual}.",
    )
