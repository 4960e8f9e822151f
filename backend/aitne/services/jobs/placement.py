"""The ``placement`` field of a job file: problems with it, and nodes that it permits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aitne.core.cluster.capacity import Fit, fit
from aitne.core.errors import FieldProblem
from aitne.core.models.job import DistributedSpec
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_options import SlurmOptions
from aitne.core.models.node import Node
from aitne.core.models.placement import Compact, PlacementSpec, names_of
from aitne.core.models.resources import Resources
from aitne.topology.hostlist import compress_hostlist, natural_key

_MOST_NAMED = 8


def placement_problems(
    file: JobFile, resources: Resources, ranks: DistributedSpec | None
) -> Iterator[FieldProblem]:
    """Yield the problems of a job file's placement with its other fields."""
    placement = file.placement
    if len(placement.node_names) > resources.nodes:
        yield FieldProblem(
            "placement.nodes",
            f"{len(placement.node_names)} nodes are named, and the job requests {resources.nodes}",
            ",".join(placement.nodes),
            f"at most {resources.nodes}, or more resources.nodes",
        )
    if placement.mesh is not None:
        count = 0 if ranks is None else resources.nodes * ranks.ranks_per_node
        if count != placement.mesh.ranks:
            has = f"the job has {count}" if count else "the job has none: it lacks distributed"
            yield FieldProblem(
                "placement.mesh",
                f"it has {placement.mesh.ranks} ranks, and {has}",
                " x ".join(map(str, placement.mesh.sizes)),
                f"sizes whose product is {count}" if count else "no mesh, or distributed",
            )
    yield from _contradictions(file.slurm, placement)


def _contradictions(slurm: SlurmOptions, placement: PlacementSpec) -> Iterator[FieldProblem]:
    """Yield a problem for each option that ``slurm`` and ``placement`` set to different values."""
    try:
        excluded = set(names_of((slurm.exclude,))) if slurm.exclude else set()
    except ValueError as error:
        yield FieldProblem("slurm.exclude", str(error), slurm.exclude, "nodes such as gpu[07-09]")
        return
    if placement.exclude and excluded and excluded != set(placement.excluded_names):
        yield FieldProblem(
            "placement.exclude",
            f"slurm.exclude names other nodes, {slurm.exclude}",
            ",".join(placement.exclude),
            "all nodes in placement.exclude, and no slurm.exclude",
        )
    if both := sorted(excluded & set(placement.node_names), key=natural_key):
        yield FieldProblem(
            "placement.nodes", f"slurm.exclude names {both[0]}", both[0], "other nodes"
        )
    set_fields = {
        "--nodelist": placement.nodes and "nodes",
        "--switches": placement.compact is not Compact.OFF and "compact",
        "--distribution": placement.order != "auto" and "order",
    }
    for option in slurm.extra:
        name = option.partition("=")[0]
        if field := set_fields.get(name):
            yield FieldProblem(
                f"placement.{field}",
                f"{name} in slurm.extra sets the same",
                option,
                f"placement.{field}, and no {name} in slurm.extra",
            )


def unknown_nodes(placement: PlacementSpec, nodes: Sequence[Node]) -> Iterator[FieldProblem]:
    """Yield a problem for each field that names nodes that the cluster does not have. Before the
    scheduler has reported any node, nothing can be decided."""
    known = {node.name for node in nodes}
    for field, names in (
        ("nodes", placement.node_names),
        ("exclude", placement.excluded_names),
    ):
        unknown = [name for name in names if name not in known]
        if known and unknown:
            yield FieldProblem(
                f"placement.{field}",
                f"there is no node {unknown[0]}"
                if len(unknown) == 1
                else f"there are no nodes {_list(unknown)}",
                _list(unknown),
                _list(sorted(known, key=natural_key)),
            )


def fit_placed(resources: Resources, placement: PlacementSpec, nodes: Sequence[Node]) -> Fit:
    """Compare a request with those of the nodes that its placement permits."""
    excluded = set(placement.excluded_names)
    allowed = [node for node in nodes if node.name not in excluded]
    if nodes and not allowed:
        problem = FieldProblem(
            "placement.exclude", "no node is left", ",".join(placement.exclude), "fewer nodes"
        )
        return Fit(False, False, None, (problem,))
    fitting = fit(resources, allowed)
    names = set(placement.node_names)
    named = [node for node in allowed if node.name in names]
    if fitting.problems or not named:
        return fitting
    enough = {node.name for node in fitting.able}
    if small := [node.name for node in named if node.name not in enough]:
        problem = FieldProblem(
            "placement.nodes",
            f"{_list(small)} cannot provide what the job requests on each node",
            _list(small),
            _list([node.name for node in fitting.able]),
        )
        return Fit(False, False, None, (problem,))
    own = fit(resources.model_copy(update={"nodes": len(named)}), named)
    return fitting if own.starts_now else replace(own, able=fitting.able)


def _list(names: Sequence[str]) -> str:
    """Return a host list of the names, shortened if there are many."""
    more = len(names) - _MOST_NAMED
    text = compress_hostlist(names) if more <= 0 else compress_hostlist(names[:_MOST_NAMED])
    return text if more <= 0 else f"{text} and {more} more"
