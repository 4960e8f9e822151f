"""The ``distributed`` field of a job file: its valid values, and problems with them.

The values are the names of the plug-ins in ``aitne_train``. That package needs torch, so the
names are read from the names of its files, and nothing is imported.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import aitne_train
from aitne.core.errors import FieldProblem
from aitne.core.models.job import DistributedSpec
from aitne.core.models.resources import Resources
from aitne_train.launcher.transport_requirements import ONE_NODE

TRANSPORT_OF = {"auto": "auto", "gloo": "torch_pg", "nccl": "torch_pg"}
"""Values of ``backend`` that are not names of transports, with the transport of each: ``auto`` lets
the runtime choose, ``gloo`` and ``nccl`` are torch's names.
"""
_KINDS = {
    "backend": ("transport", "aitne_train.transports", tuple(TRANSPORT_OF)),
    "strategy": ("exchange", "aitne_train.exchanges", ()),
    "compress": ("compress", "aitne_train.compressors", ("none",)),
}
_PORTS = frozenset({"base", "auto"})
"""Modules in the plug-in packages that are not plug-ins."""


def list_permitted_values(field: str) -> list[str]:
    """Return the permitted values of ``field``, which is ``backend``, ``strategy`` or ``compress``,
    sorted.
    """
    folder, group, aliases = _KINDS[field]
    path = Path(aitne_train.__file__).parent / folder
    modules = (module.name for module in pkgutil.iter_modules([str(path)]))
    names = {name for name in modules if not name.startswith("_")} - _PORTS
    return sorted({*names, *aliases, *(point.name for point in entry_points(group=group))})


def find_distributed_problems(
    spec: DistributedSpec, resources: Resources
) -> Iterator[FieldProblem]:
    """Yield the problems that prevent a distributed program from running with these resources."""
    for field in _KINDS:
        name = getattr(spec, field)
        if name not in (names := list_permitted_values(field)):
            yield FieldProblem(
                f"distributed.{field}", f"there is no {field} {name!r}", name, ", ".join(names)
            )
    if spec.horovod and spec.backend == "horovod":
        yield FieldProblem(
            "distributed.horovod",
            "import horovod.torch is aitne_train with it, and the backend horovod is Horovod itself",
            "true",
            "false, or another backend",
        )
    for field, instead in (
        ("tasks_per_node", "distributed.ranks_per_node"),
        ("cpus_per_task", "resources.cpu, the CPUs of all ranks of a node"),
    ):
        if (count := getattr(resources, field)) is not None:
            yield FieldProblem(
                f"resources.{field}",
                "the platform starts the ranks of a distributed job itself, and srun no tasks",
                str(count),
                instead,
            )
    if resources.nodes > 1 and (reason := ONE_NODE.get(spec.backend)) is not None:
        yield FieldProblem(
            "distributed.backend",
            f"{spec.backend} serves one node only: {reason}",
            spec.backend,
            "auto, gloo or nccl on several nodes",
        )
    if spec.backend == "nccl" and resources.gpu.count == 0:
        yield FieldProblem(
            "distributed.backend",
            "nccl needs a GPU for each rank, and the job requests none",
            spec.backend,
            "auto, or resources.gpu",
        )


def list_distributed_warnings(spec: DistributedSpec, resources: Resources) -> Sequence[str]:
    """Return warnings about settings that are possible but may be unintended, one sentence each."""
    ranks = spec.ranks_per_node
    sentences = []
    if ranks > resources.cpu:
        sentences.append(
            f"{ranks} ranks share {resources.cpu} CPU{'' if resources.cpu == 1 else 's'} on each "
            f"node; request resources.cpu: {ranks} or more."
        )
    gpus = resources.gpu.count
    if gpus and ranks > gpus:
        sentences.append(
            f"{ranks} ranks share {gpus} GPU{'' if gpus == 1 else 's'} on each node, which nccl "
            "does not support."
        )
    elif gpus > ranks:
        sentences.append(f"{gpus - ranks} of {gpus} GPUs on each node have no rank.")
    return sentences
