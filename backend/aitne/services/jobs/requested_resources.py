"""Resources and time limit of a job, with the defaults of its template and of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aitne.core.cluster.partition_defaults import NO_LIMIT_S, QueueDefaults, exclusive_memory_bytes
from aitne.core.models.cluster import Cluster, Node
from aitne.core.models.job import JobSpec
from aitne.core.models.resources import ALL, GpuRequest, MemoryRequest, Resources, ResourcesFile
from aitne.core.models.template import TemplateResources
from aitne.core.settings import Settings
from aitne.core.units import format_duration

_MEMORY = 2 << 30
_DURATION_S = 4 * 3_600
"""Default memory on each node and time limit with a scheduler that has no defaults of its own."""


def resolve_resources(
    requested: ResourcesFile,
    offered: TemplateResources,
    *,
    queue: QueueDefaults | None,
    nodes: Sequence[Node],
) -> Resources:
    """Return the number of nodes and the resources on each node that the job requests.

    Args:
        requested: resources in the job file.
        offered: resources of the job's template.
        queue: defaults that the scheduler applies to jobs; None: it has none.
        nodes: nodes of the cluster.
    """
    tasks, cpus_per_task = requested.tasks_per_node, requested.cpus_per_task
    if tasks is not None and requested.cpu is not None:
        cpus_per_task = requested.cpu // tasks
    cpu = requested.cpu or offered.cpu.default
    if tasks is not None or cpus_per_task is not None:
        cpu = (tasks or 1) * (cpus_per_task or 1)
    memory = resolve_memory(requested, offered, queue)
    gpu = requested.gpu or offered.gpu.default
    if gpu.count == 0 and gpu.type is not None:
        gpu = GpuRequest(count=0)
    resources = Resources(
        nodes=requested.nodes or offered.nodes.default,
        cpu=cpu,
        tasks_per_node=tasks,
        cpus_per_task=cpus_per_task,
        memory_bytes=memory if isinstance(memory, int) else 0,
        memory_request=MemoryRequest.AMOUNT,
        gpu=gpu,
        gres=requested.gres or {},
        sbatch_options=requested.sbatch_options,
    )
    if isinstance(memory, int):
        return resources
    if queue is None:
        return resources.model_copy(
            update={"memory_bytes": exclusive_memory_bytes(resources, nodes)}
        )
    return resources.model_copy(update=_make_memory_fields(resources, queue, whole=memory == ALL))


def resolve_memory(
    requested: ResourcesFile, offered: TemplateResources, queue: QueueDefaults | None
) -> int | Literal["all"] | None:
    """Return the memory on each node in bytes that the job requests; ``ALL``: the node's whole
    memory; None: the scheduler decides.
    """
    memory = requested.memory or offered.memory.default
    return _MEMORY if memory is None and queue is None else memory


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Time limit of a job."""

    seconds: int
    requested: bool = True
    """False: the scheduler decides, and is expected to apply ``seconds``."""
    note: str | None = None
    """Note for the user about the limit, as a sentence."""


def resolve_time_limit(
    requested: int | None, offered: int | None, longest: int, queue: QueueDefaults | None
) -> TimeLimit:
    """Return the time limit of the job; all values are in seconds.

    Args:
        requested: time limit in the job file.
        offered: default of the job's template.
        longest: longest time limit that the template and the platform permit.
        queue: defaults that the scheduler applies to jobs; None: it has none.
    """
    if requested is not None:
        return TimeLimit(requested)
    if offered is None and queue is not None:
        return _default_limit(queue, longest)
    return TimeLimit(min(offered or _DURATION_S, longest))


def with_default_amounts(
    spec: JobSpec, settings: Settings, cluster: Cluster, longest_s: int | None
) -> JobSpec:
    """Return the specification of an earlier job with the amounts that the scheduler would decide on
    now. ``longest_s`` is the longest time that the job's account and QOS permit; None: any.
    """
    resources, update = spec.resources, dict[str, object]()
    queue = QueueDefaults.from_options(spec.slurm, cluster, longest_s)
    decides = settings.capabilities.decides_amounts
    if resources.memory_request is not MemoryRequest.AMOUNT:
        fields = (
            _make_memory_fields(
                resources, queue, whole=resources.memory_request is MemoryRequest.ALL
            )
            if decides
            else {"memory_bytes": _MEMORY, "memory_request": MemoryRequest.AMOUNT}
        )
        update["resources"] = resources.model_copy(update=fields)
    if not spec.max_duration_requested:
        longest = settings.limits.max_duration
        limit = _default_limit(queue, longest) if decides else TimeLimit(min(_DURATION_S, longest))
        update |= {"max_duration_s": limit.seconds, "max_duration_requested": limit.requested}
    return spec.model_copy(update=update)


def _make_memory_fields(
    resources: Resources, queue: QueueDefaults, *, whole: bool
) -> dict[str, object]:
    """Return the fields about memory of a job that requests all memory of its nodes (``whole``), or
    none.
    """
    if whole:
        memory = exclusive_memory_bytes(resources, queue.nodes)
        return {"memory_bytes": memory, "memory_request": MemoryRequest.ALL}
    return {
        "memory_bytes": queue.memory_bytes(resources),
        "memory_request": MemoryRequest.DEFAULT,
    }


def explain_added_cpus(resources: Resources, queue: QueueDefaults | None) -> tuple[str, ...]:
    """Return a note for the user if the scheduler gives a job with GPUs more CPUs than it names.

    ``queue`` are the defaults that the scheduler applies to jobs; None: it has none.
    """
    if queue is None or (cpus := queue.cpus_per_node(resources)) == resources.cpu:
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
