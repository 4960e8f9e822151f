"""Checks of a job against the cluster and the limits of the platform: its nodes, partition, GPU
drivers and maximum values.

The checks have no side effects. They collect all problems, so that a user sees them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aitne.core import driver_match as drivers
from aitne.core.cluster.job_count_limits import max_array_tasks
from aitne.core.cluster.partition_check import select_partitions
from aitne.core.cluster.request_fit import Fit, select_capable_nodes
from aitne.core.models.cluster import Cluster, Node, Partition
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.image import ImageUse
from aitne.core.models.job import JobSpec
from aitne.core.models.placement import PlacementSpec
from aitne.core.models.resources import Resources
from aitne.core.settings import Settings
from aitne.core.units import format_duration, parse_array
from aitne.services.jobs.placement_checks import fit_permitted_nodes, unknown_nodes
from aitne.services.jobs.problems import Problems
from aitne_train.topology.hostlist import compress_hostlist


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Parts of a job's specification that are compared with the cluster."""

    project: str
    resources: Resources
    max_duration_s: int | None
    """Time limit in seconds that the job requests; None: it leaves it to the scheduler."""
    array: str | None
    """Array indices, as in the job file; None: the job is not an array."""
    slurm: SlurmOptions
    placement: PlacementSpec
    image: ImageUse | None = None
    """Image of the job; None: the job runs without an image."""

    @classmethod
    def from_spec(cls, spec: JobSpec) -> ClusterRequest:
        """Return these parts of a specification that has passed the checks before."""
        return cls(
            spec.project,
            spec.resources,
            spec.max_duration_s if spec.max_duration_requested else None,
            spec.array,
            spec.slurm,
            spec.placement,
            spec.image_use,
        )


def fit_cluster(
    request: ClusterRequest, cluster: Cluster, settings: Settings, problems: Problems
) -> Fit:
    """Return how the cluster can run the job (``request``), and add problems for resources that its
    nodes can never provide or that its partition does not permit.
    """
    nodes = cluster.nodes
    waits_for: str | None = None
    if settings.capabilities.partitions:
        queue = select_partitions(
            request.slurm,
            cluster,
            project=request.project,
            wanted_nodes=request.resources.nodes,
            max_duration_s=request.max_duration_s,
            array=request.array,
            extra_allowed=settings.slurm.extra,
        )
        problems.extend(queue.problems)
        if queue.problems:
            return Fit(False, False)
        nodes = queue.nodes
        waits_for = _find_down_reason(queue.partitions)
    problems.extend(unknown_nodes(request.placement, cluster.nodes))
    fitting = fit_permitted_nodes(request.resources, request.placement, nodes)
    problems.extend(fitting.problems)
    if waits_for is not None and fitting.fits:
        # With --test-only, Slurm refuses jobs in such a partition, although it takes them otherwise.
        fitting = replace(fitting, starts_now=False, reason=waits_for, away=True)
    return replace(fitting, notes=_check_drivers(request, nodes, problems))


def _find_down_reason(partitions: Sequence[Partition]) -> str | None:
    """Return the reason why a job in these partitions waits; None if one of them is up."""
    if not partitions or any(partition.up for partition in partitions):
        return None
    return "The partition is down and starts no jobs."


def _check_drivers(
    request: ClusterRequest, nodes: Sequence[Node], problems: Problems
) -> tuple[str, ...]:
    """Add a problem if no node has a GPU driver that can run the image; return notes about drivers
    otherwise.
    """
    if request.image is None or request.image.cuda is None or request.resources.gpu.count == 0:
        return ()
    driver_match = drivers.match_drivers(
        request.image.cuda, select_capable_nodes(request.resources, nodes)
    )
    message = drivers.describe_driver_problem(request.image.cuda, driver_match)
    if message is None:
        return ()
    if driver_match.is_impossible:
        others = drivers.match_drivers(
            request.image.cuda, [node for node in nodes if node.gpus]
        ).able
        problems.add(
            "image",
            message,
            request.image.reference,
            f"nodes that fit: {compress_hostlist(others)}" if others else "an older image",
        )
        return ()
    hint = " Name them by `slurm.constraint`." if driver_match.too_old and driver_match.able else ""
    return (message + hint,)


def check_maximum(
    name: str, value: int, maximum: int | None, problems: Problems, *, shown: str | None = None
) -> None:
    """Add a problem if the value of the field ``name`` exceeds ``maximum``, unless the field
    already has a problem.

    Args:
        maximum: highest permitted value; None: there is no maximum.
        shown: value as shown in the error; None: the number.
    """
    if (
        maximum is not None
        and value > maximum
        and name not in {problem.field for problem in problems.found}
    ):
        problems.add(name, f"{value} is more than the limit", shown or value, f"at most {maximum}")


def check_array_size(array: str | None, maximum: int, problems: Problems) -> None:
    """Add a problem if the array has more than ``maximum`` tasks."""
    if array is not None and (tasks := len(parse_array(array).indices)) > maximum:
        problems.add(
            "array",
            f"{array} has {tasks} tasks",
            array,
            f"at most {maximum} tasks",
        )


def check_platform_limits(
    spec: JobSpec, settings: Settings, cluster: Cluster, problems: Problems
) -> None:
    """Check a specification that was accepted earlier against the platform's current limits, and
    add a problem for each limit that it exceeds.
    """
    limits = settings.limits
    check_maximum("resources.nodes", spec.resources.nodes, limits.max_nodes, problems)
    if spec.max_duration_s > limits.max_duration:
        problems.add(
            "max_duration",
            "it is longer than this platform allows",
            format_duration(spec.max_duration_s),
            f"at most {format_duration(limits.max_duration)}",
        )
    check_array_size(spec.array, max_array_tasks(settings, cluster), problems)
