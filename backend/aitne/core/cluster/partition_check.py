"""Check of a job's partition, QOS and other Slurm names against a snapshot of the cluster.

Properties that the snapshot does not contain (limits of associations, licences, plug-ins of the
site) are checked only by the scheduler; see ``Scheduler.forecast``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import Cluster, Node, Partition
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.units import format_duration, parse_array

_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OPTION = re.compile(r"--([a-z][a-z-]*)")


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """Nodes on which a job may run according to its Slurm options."""

    nodes: tuple[Node, ...]
    problems: tuple[FieldProblem, ...] = ()
    """Problems with the options; the job must not be submitted if there are any."""
    partitions: tuple[Partition, ...] = field(default=())
    """Partitions that the job names, or the default partition."""


def select_partitions(
    slurm: SlurmOptions,
    cluster: Cluster,
    *,
    project: str,
    wanted_nodes: int,
    max_duration_s: int | None,
    array: str | None,
    extra_allowed: Sequence[str],
) -> NodeSelection:
    """Check a job's Slurm options against the cluster, and return the nodes and partitions that it
    may use. Options are compared only with what the scheduler has reported about the cluster.

    Args:
        slurm: Slurm options of the job.
        cluster: snapshot of the cluster.
        project: project of the job, which is its Slurm account unless the options name another.
        wanted_nodes: number of nodes that the job requests.
        max_duration_s: time limit in seconds that the job requests; None: it requests none.
        array: array specification; None: not an array job.
        extra_allowed: sbatch options that the site permits in ``slurm.extra``.
    """
    problems = [*_extra_problems(slurm, extra_allowed), *_array_problems(array, cluster)]
    partitions = find_named_partitions(slurm, cluster)
    problems += _unknown_partitions(slurm, cluster)
    if partitions:
        problems += _limit_problems(slurm, partitions, project, wanted_nodes, max_duration_s)
    problems += _name_problems(slurm, cluster)
    nodes: Iterable[Node] = cluster.nodes
    if partitions:
        names = {name for partition in partitions for name in partition.nodes}
        nodes = [node for node in nodes if node.name in names]
    needed = _needed_features(slurm.constraint)
    nodes = [node for node in nodes if needed <= {*node.features}]
    return NodeSelection(tuple(nodes), tuple(problems), tuple(partitions))


def find_named_partitions(slurm: SlurmOptions, cluster: Cluster) -> list[Partition]:
    """Return the known partitions that the options name, in their order; without any name, the
    default partition.
    """
    if slurm.partition is None:
        return [partition for partition in cluster.partitions if partition.default]
    partitions = {partition.name: partition for partition in cluster.partitions}
    names = slurm.partition.split(",")
    return [partitions[name] for name in names if name in partitions]


def _unknown_partitions(slurm: SlurmOptions, cluster: Cluster) -> list[FieldProblem]:
    known = {partition.name for partition in cluster.partitions}
    if not known or slurm.partition is None:
        return []
    return [
        FieldProblem(
            "slurm.partition", f"there is no partition {name}", name, ", ".join(sorted(known))
        )
        for name in slurm.partition.split(",")
        if name not in known
    ]


def _limit_problems(
    slurm: SlurmOptions,
    partitions: Sequence[Partition],
    project: str,
    wanted_nodes: int,
    max_duration_s: int | None,
) -> list[FieldProblem]:
    """Return the problems with the limits of the partitions. If the job names several partitions,
    the problems of the one with the fewest are returned, because one suitable partition is
    sufficient.
    """
    account = slurm.account or project
    best: list[FieldProblem] | None = None
    for partition in partitions:
        problems = _check_partition_limits(partition, slurm, account, wanted_nodes, max_duration_s)
        if best is None or len(problems) < len(best):
            best = problems
    return best or []


def _check_partition_limits(
    partition: Partition, slurm: SlurmOptions, account: str, nodes: int, max_duration_s: int | None
) -> list[FieldProblem]:
    name = partition.name
    problems = []
    if not partition.accepts_jobs:
        problems.append(
            FieldProblem(
                "slurm.partition",
                f"partition {name} takes no new jobs now (its state is {get_partition_state(partition)})",
                name,
                "a partition that is UP or DOWN",
            )
        )
    longest = partition.max_time_s
    if longest is not None and max_duration_s is not None and max_duration_s > longest:
        problems.append(
            FieldProblem(
                "max_duration",
                f"partition {name} ends jobs after {format_duration(longest)}",
                format_duration(max_duration_s),
                f"at most {format_duration(longest)}",
            )
        )
    if partition.max_nodes is not None and nodes > partition.max_nodes:
        problems.append(
            FieldProblem(
                "resources.nodes",
                f"partition {name} gives one job at most {partition.max_nodes} nodes",
                str(nodes),
                f"at most {partition.max_nodes}",
            )
        )
    if nodes < partition.min_nodes:
        problems.append(
            FieldProblem(
                "resources.nodes",
                f"partition {name} takes jobs of at least {partition.min_nodes} nodes",
                str(nodes),
                f"at least {partition.min_nodes}",
            )
        )
    allowed = partition.allow_accounts
    if (allowed is not None and account not in allowed) or account in partition.deny_accounts:
        problems.append(
            FieldProblem(
                "slurm.partition",
                f"partition {name} does not take jobs of the account {account}",
                name,
                None if allowed is None else f"for the accounts {', '.join(allowed)}",
            )
        )
    if slurm.qos and partition.allow_qos is not None and slurm.qos not in partition.allow_qos:
        problems.append(
            FieldProblem(
                "slurm.qos",
                f"partition {name} does not take the QOS {slurm.qos}",
                slurm.qos,
                ", ".join(partition.allow_qos),
            )
        )
    return problems


def get_partition_state(partition: Partition) -> str:
    """Return Slurm's word for the state of a partition."""
    if partition.up:
        return "UP" if partition.accepts_jobs else "DRAIN"
    return "DOWN" if partition.accepts_jobs else "INACTIVE"


def _name_problems(slurm: SlurmOptions, cluster: Cluster) -> list[FieldProblem]:
    problems = []
    if slurm.qos and cluster.qos and slurm.qos not in cluster.qos:
        problems.append(
            FieldProblem(
                "slurm.qos",
                f"there is no QOS {slurm.qos}",
                slurm.qos,
                ", ".join(sorted(cluster.qos)),
            )
        )
    reservations = {reservation.name for reservation in cluster.reservations}
    if slurm.reservation and cluster.nodes and slurm.reservation not in reservations:
        problems.append(
            FieldProblem(
                "slurm.reservation",
                f"there is no reservation {slurm.reservation}",
                slurm.reservation,
                ", ".join(sorted(reservations)) or "none: there is no reservation now",
            )
        )
    features = {name for node in cluster.nodes for name in node.features}
    if cluster.nodes:
        problems += [
            FieldProblem(
                "slurm.constraint",
                f"no node has the feature {name}",
                slurm.constraint,
                ", ".join(sorted(features)) or "none: no node has a feature",
            )
            for name in _FEATURE.findall(slurm.constraint or "")
            if name not in features
        ]
    return problems


def _needed_features(constraint: str | None) -> set[str]:
    """Return the features that every node must have according to the constraint.

    Empty if the constraint is more complex than a list of features.
    """
    if constraint is None or re.search(r"[|*()\[\]]", constraint):
        return set()
    return set(re.split(r"[&,]", constraint)) - {""}


def _extra_problems(slurm: SlurmOptions, allowed: Sequence[str]) -> list[FieldProblem]:
    names = {name.removeprefix("--") for name in allowed}
    fields = {name.replace("_", "-"): name for name in SlurmOptions.model_fields}
    # --exclusive=user is not the field ``exclusive``.
    del fields["exclusive"]
    return [
        FieldProblem(
            "slurm.extra",
            f"this option has a field of its own: slurm.{fields[match[1]]}",
            option,
            "options without a field",
        )
        for option in slurm.extra
        if (match := _OPTION.match(option)) is not None and match[1] in fields
    ] + [
        FieldProblem(
            "slurm.extra",
            f"this site does not permit {option.partition('=')[0]}",
            option,
            ", ".join(f"--{name}" for name in sorted(names)) or "none (slurm.extra in aitne.toml)",
        )
        for option in slurm.extra
        if (match := _OPTION.match(option)) is None or match[1] not in names
    ]


def _array_problems(array: str | None, cluster: Cluster) -> list[FieldProblem]:
    max_size = cluster.max_array_size
    if array is None or max_size is None:
        return []
    highest = max(parse_array(array).indices)
    if highest < max_size:
        return []
    return [
        FieldProblem(
            "array",
            f"the task index {highest} is beyond Slurm's MaxArraySize",
            array,
            f"indices up to {max_size - 1}",
        )
    ]
