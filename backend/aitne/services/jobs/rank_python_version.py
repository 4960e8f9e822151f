"""Check that the nodes have a Python version that the ranks of a notebook can use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import Node
from aitne.core.models.job import JobSpec
from aitne_train.topology.hostlist import compress_hostlist

OLDEST = (3, 11)
"""Oldest Python that runs the platform's package for notebooks."""
_MOST_NAMED = 100


def needs_ranks_python(spec: JobSpec) -> bool:
    """Return whether ranks of the job execute cells of a notebook in the node's own Python, instead
    of that of an image or of a user's environment.
    """
    if spec.image_use is not None:
        return False
    if spec.rank_group is not None:
        return spec.rank_group.python is None
    own = spec.environment.venv is not None or spec.environment.conda is not None
    if spec.distributed is None or (spec.notebook is not None and own):
        return False
    return bool(spec.notebook is not None or spec.apps)


def python_problems(
    spec: JobSpec, nodes: Sequence[Node], pythons: Mapping[str, str]
) -> Iterator[FieldProblem]:
    """Yield a problem if fewer nodes than the job needs can have a Python that is new enough.

    Args:
        spec: specification of a job for which ``needs_ranks_python`` is true.
        nodes: nodes that could run a part of the job.
        pythons: versions of Python by node; a node that has not reported it counts as new enough.
    """
    old = [
        node.name
        for node in nodes
        if node.name in pythons and tuple(map(int, pythons[node.name].split("."))) < OLDEST
    ]
    if old and len(nodes) - len(old) < spec.resources.nodes:
        oldest = ".".join(map(str, OLDEST))
        versions = ", ".join(sorted({pythons[name] for name in old}))
        yield FieldProblem(
            "resources.nodes",
            f"ranks beside a notebook need Python {oldest} or newer, and the nodes that could run them "
            f"({compress_hostlist(old[:_MOST_NAMED])}) have Python {versions}",
            str(spec.resources.nodes),
            "an image, or other nodes; an administrator can set a newer `[slurm] python`",
        )
