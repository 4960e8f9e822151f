"""Advice on how a pending job could start earlier. Pure arithmetic on a snapshot of the cluster.

The advice is based only on the snapshot: the scheduler may decide otherwise, by priority or by
rules that it does not report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from pydantic import Field

from aitne.core.byte_size_format import describe_bytes
from aitne.core.cluster.gpu_forecast import GpuCapacity
from aitne.core.cluster.request_fit import check_fit, select_capable_nodes
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.cluster import Node
from aitne.core.models.job import Job
from aitne.core.models.resources import GpuRequest, Resources

_LEAST_MEMORY = 256 << 20
"""Minimum amount of memory in bytes that is advised, because hardly any program runs with less."""
_MOST_NAMED = 5
_THINGS = {
    "resources.cpu": "CPUs",
    "resources.memory": "memory",
    "resources.gpu": "GPUs",
    "resources.nodes": "nodes",
    "resources.gres": "GRES",
    "resources": "one of",
}


class NamedJob(Frozen):
    """Job that a piece of advice refers to."""

    id: UUID
    name: str
    """Name of the job."""
    array_task_id: int | None = Field(
        None, description="Number of the task; null: the job is not a task of an array."
    )
    owner: str | None = Field(
        None, description="Its owner, for administrators; null: the owner of the queued job."
    )


class Advice(Frozen):
    """Piece of advice on a queued job: an action that would help, or the time at which the job can
    start.
    """

    text: str = Field(description="A sentence, or its beginning where `at` or `jobs` complete it.")
    at: UtcTime | None = Field(None, description="Time with which the sentence ends.")
    jobs: tuple[NamedJob, ...] = Field((), description="Jobs that the sentence refers to.")


def advise_on_pending_job(
    job: Job,
    *,
    nodes: Sequence[Node],
    gpus: Sequence[GpuCapacity],
    running: Sequence[Job],
    before: Sequence[Job],
    limit: str | None,
    all_users: bool = False,
) -> tuple[Advice, ...]:
    """Return advice on how a pending job could start earlier; empty if no useful action is known.

    Args:
        job: the pending job.
        nodes: nodes that the job may use.
        gpus: capacity and forecast of each GPU type.
        running: running jobs of the owner or, with ``all_users``, of all users.
        before: jobs that must complete before the job can start.
        limit: sentence about the limit of a project or QOS that keeps the job pending; None: no
            such limit.
        all_users: whether the advice may name jobs of other users.
    """
    if before:
        return (Advice(text="It waits for these jobs:", jobs=_make_named_jobs(before, job)),)
    resources = job.spec.resources
    match = check_fit(resources, nodes)
    if not match.fits:
        allowed = "; ".join(
            f"{_THINGS.get(problem.field, problem.field)}: {problem.allowed}"
            for problem in match.problems
            if problem.allowed
        )
        return (Advice(text=f"No node is large enough now. What would fit: {allowed}."),)
    # The end of its session would end a rank group too.
    running = [other for other in running if other.id != job.session_id]
    if limit is not None:
        same_project = [other for other in running if other.project == job.project]
        return (
            Advice(text=limit),
            *_advise_on_largest_jobs(job, same_project, all_users=all_users),
        )
    if match.starts_now or match.away:
        return ()
    names = {node.name for node in select_capable_nodes(resources, nodes)}
    same_nodes = [other for other in running if names.intersection(other.nodes)]
    held = _advise_on_largest_jobs(job, same_nodes, all_users=all_users)
    return (*_advise_on_gpus(job, nodes, gpus), *_advise_smaller_request(resources, nodes), *held)


def _make_named_jobs(jobs: Iterable[Job], waiting: Job) -> tuple[NamedJob, ...]:
    return tuple(
        NamedJob(
            id=job.id,
            name=job.name,
            array_task_id=job.array_task_id,
            owner=None if job.owner == waiting.owner else job.owner,
        )
        for job in jobs
    )


def _advise_on_largest_jobs(
    waiting: Job, jobs: Sequence[Job], *, all_users: bool
) -> Iterator[Advice]:
    """Yield advice that names the largest of the running jobs, compared by GPUs and then by CPUs;
    nothing if ``jobs`` is empty. ``all_users`` states whether the jobs may belong to other users.
    """
    if not jobs:
        return
    whose = "Running jobs" if all_users else "Your running jobs"
    largest = sorted(jobs, key=_make_size_key, reverse=True)[:_MOST_NAMED]
    yield Advice(text=f"{whose} that use these resources:", jobs=_make_named_jobs(largest, waiting))


def _make_size_key(job: Job) -> tuple[int, int]:
    resources = job.spec.resources
    return resources.nodes * resources.gpu.count, resources.nodes * resources.cpu


def _advise_on_gpus(
    job: Job, nodes: Sequence[Node], capacities: Sequence[GpuCapacity]
) -> Iterator[Advice]:
    """Yield advice about another GPU type that is free, and about the time at which enough GPUs of
    the requested type are.
    """
    resources = job.spec.resources
    request = resources.gpu
    if not request.count:
        return
    types = sorted({gpu.type for node in nodes for gpu in node.gpus if gpu.type})
    for name in types if request.type else ():
        other = resources.model_copy(update={"gpu": GpuRequest(count=request.count, type=name)})
        if name != request.type and check_fit(other, nodes).starts_now:
            free = request.count * resources.nodes
            yield Advice(
                text=f"Of the GPUs of type {name}, {free} are free: with those it could start now."
            )
    needed = request.count * resources.nodes
    for capacity in capacities:
        if capacity.type != request.type:
            continue
        at = next((step.at for step in capacity.forecast[1:] if step.free >= needed), None)
        if at is not None:
            others = ", for which others wait too," if capacity.waiting > needed else ""
            what = f"{needed} {capacity.type} GPUs" if capacity.type else f"{needed} GPUs"
            yield Advice(text=f"{what}{others} come free at the latest", at=at)


def _advise_smaller_request(resources: Resources, nodes: Sequence[Node]) -> Iterator[Advice]:
    """Yield advice to request fewer resources, so that the request fits into the free resources of
    one node.
    """
    if resources.nodes > 1 or resources.gres or not resources.memory_bytes:
        return
    best: tuple[float, int, int] | None = None
    for node in nodes:
        gpus = sum(
            gpu.total - gpu.used for gpu in node.gpus if resources.gpu.type in (None, gpu.type)
        )
        cpu = min(resources.cpu, node.cpu_total - node.cpu_used)
        free = node.memory_total_bytes - node.memory_used_bytes
        memory = min(resources.memory_bytes, free)
        if (
            not node.state.is_usable
            or gpus < resources.gpu.count
            or cpu < 1
            or memory < _LEAST_MEMORY
        ):
            continue
        share = cpu / resources.cpu + memory / resources.memory_bytes
        best = max(best or (0.0, 0, 0), (share, cpu, memory))
    if best is not None:
        _, cpu, memory = best
        cpus = "1 CPU" if cpu == 1 else f"{cpu} CPUs"
        yield Advice(text=f"With {cpus} and {describe_bytes(memory, 'down')} it could start now.")
