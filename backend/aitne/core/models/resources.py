"""Resources that a job requests: nodes, and per node CPUs, memory and GPUs."""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_serializer, model_validator

from aitne.core.models.base import Frozen, MemoryText, Strict, convert_memory
from aitne.core.units import GPU_TYPE, GRES_KIND, format_memory, parse_gres

_GRES_NAME = rf"^{GRES_KIND}(:{GPU_TYPE})?$"
_GPU_FIELDS = {"count", "type"}
_COUNTED = re.compile(r"(?:.*:)?[0-9]+")


class GpuRequest(Frozen):
    """Number of GPUs on each node, and their type (None: any type)."""

    count: int = Field(strict=True, ge=0, le=1024)
    type: Annotated[str | None, Field(pattern=f"^{GPU_TYPE}$")] = None

    def __str__(self) -> str:
        return str(self.count) if self.type is None else f"{self.type}:{self.count}"

    @classmethod
    def parse(cls, value: object) -> object:
        """Convert ``4``, ``"a100:4"`` or ``"4"`` to a mapping of the fields; a mapping or request
        is returned unchanged.

        Raises ``ValueError`` for other values.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            return {"count": value}
        if isinstance(value, str) and _COUNTED.fullmatch(value.strip()):
            with suppress(ValueError):
                (gpu,) = parse_gres(f"gpu:{value.strip().removeprefix('gpu:')}")
                return {"count": gpu.count, "type": gpu.type}
        if isinstance(value, GpuRequest) or (isinstance(value, dict) and {*value} <= _GPU_FIELDS):
            return value
        raise ValueError("write a number of GPUs or type:number, such as a100:4")


Gpu = Annotated[
    GpuRequest,
    BeforeValidator(GpuRequest.parse, json_schema_input_type=int | str),
]


def _complete_rank_gpu(value: object) -> object:
    """Return ``a100:1`` for the name of a type such as ``a100``; other values are returned
    unchanged.
    """
    if not isinstance(value, str) or value.isdecimal() or " " in value:
        return value
    return f"{value}:1" if re.fullmatch(GPU_TYPE, value) else value


RankGpu = Annotated[
    GpuRequest,
    BeforeValidator(
        lambda value: GpuRequest.parse(_complete_rank_gpu(value)), json_schema_input_type=int | str
    ),
]
"""GPUs of each rank; input may also be a type alone, which requests one such GPU."""


GresName = Annotated[str, Field(pattern=_GRES_NAME)]
GresCount = Annotated[int, Field(strict=True, ge=1, le=1 << 53)]


def _no_gpu_by_name(value: dict[str, int]) -> dict[str, int]:
    for name in value:
        if name.partition(":")[0] == "gpu":
            raise ValueError("request GPUs with resources.gpu, not by the name of their GRES")
    return value


Gres = Annotated[dict[GresName, GresCount], AfterValidator(_no_gpu_by_name)]
"""Generic resources (GRES) other than GPUs on each node by Slurm's name, such as ``{"shard":
2}``.
"""


SbatchAmount = Literal[
    "gpus", "gpus-per-node", "gpus-per-task", "mem-per-cpu", "mem-per-gpu", "ntasks"
]
"""Option of sbatch that requests an amount of ``Resources`` in another way than ``--gres``, ``--mem``
and ``--ntasks-per-node``.
"""


ALL: Literal["all"] = "all"
"""Text that requests all memory of each node."""


class MemoryRequest(StrEnum):
    """Kind of a request for memory on each node of a job."""

    AMOUNT = "amount"
    """A number of bytes."""
    DEFAULT = "default"
    """Nothing: the scheduler decides, by the defaults of the partition."""
    ALL = "all"
    """All memory of each node."""


def _amount_or_all(value: object) -> object:
    return value if value == ALL else convert_memory(value)


MemoryOrAll = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=1 << 60)] | Literal["all"],
    BeforeValidator(_amount_or_all, json_schema_input_type=MemoryText | Literal["all"]),
]
"""Number of bytes, for which users write a text such as ``16G``; or ``all``."""


class ResourcesFile(Strict):
    """Content of ``resources`` in a job file; omitted fields have the defaults of the template, or
    of the scheduler.
    """

    nodes: int | None = Field(None, strict=True, ge=1, le=65_536, description="Number of nodes.")
    cpu: int | None = Field(None, strict=True, ge=1, le=4_096, description="CPUs on each node.")
    tasks_per_node: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=4_096,
        description="Tasks that srun and MPI start on each node; without cpu or cpus_per_task each "
        "has one CPU. Omitted: Slurm's default, one. Ranks of distributed are ranks_per_node.",
    )
    cpus_per_task: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=4_096,
        description="CPUs of each task, instead of cpu: a node has tasks_per_node times as many.",
    )
    memory: Annotated[
        MemoryOrAll | None,
        Field(
            description="Memory on each node, such as 16G; all: the node's whole memory. Omitted, "
            "without a template: Slurm decides by the defaults of the partition."
        ),
    ] = None
    gpu: Annotated[Gpu | None, Field(description="GPUs on each node: a number or type:number.")] = (
        None
    )
    gres: Annotated[
        Gres | None,
        Field(max_length=20, description="Other GRES on each node by name, such as shard: 2."),
    ] = None
    sbatch_options: tuple[SbatchAmount, ...] = Field(
        default_factory=tuple,
        max_length=6,
        description="Options of sbatch by which Slurm gets these amounts, instead of gres, mem and "
        "ntasks-per-node: programs find the amounts in other variables, such as "
        "SLURM_GPUS_PER_NODE. What an imported script uses; no effect with other schedulers.",
        examples=[["gpus-per-node", "mem-per-cpu"]],
    )

    @field_serializer("memory", when_used="json-unless-none")
    def _serialize_memory(self, value: int | str) -> str:
        return value if isinstance(value, str) else format_memory(value)

    @model_validator(mode="after")
    def _check_tasks(self) -> Self:
        if self.cpu is not None and self.cpus_per_task is not None:
            raise ValueError(
                "cpu counts the CPUs of a node and cpus_per_task those of a task: set one of them"
            )
        if self.cpu is not None and self.cpu % (self.tasks_per_node or 1):
            raise ValueError(
                f"{self.cpu} CPUs on a node are not the same number for each of "
                f"{self.tasks_per_node} tasks; set cpus_per_task instead of cpu"
            )
        return self

    @model_validator(mode="after")
    def _one_memory_option(self) -> Self:
        if {"mem-per-cpu", "mem-per-gpu"} <= {*self.sbatch_options}:
            raise ValueError("sbatch takes mem-per-cpu or mem-per-gpu, not both: choose one")
        return self


class Resources(Frozen):
    """Resources that a job requests, with all defaults filled in."""

    nodes: int = Field(1, ge=1)
    """Number of nodes of the job."""
    cpu: int = Field(1, ge=1)
    """Number of CPUs on each node, for all tasks together."""
    tasks_per_node: int | None = Field(None, ge=1)
    """Number of tasks that ``srun`` starts on each node; None: the scheduler's default."""
    cpus_per_task: int | None = Field(None, ge=1)
    """Number of CPUs for each task; None: not requested, so each task has one if the number of
    tasks is given.
    """
    memory_bytes: int = Field(1 << 30, ge=0)
    """Memory on each node, in bytes: what is requested, or what the scheduler is expected to give
    (``memory_request``). 0 if that is unknown, and for a job from outside that has all memory of
    its nodes.
    """
    memory_request: MemoryRequest = MemoryRequest.AMOUNT
    """What the job requests: these bytes, all memory of each node, or nothing (default)."""
    gpu: GpuRequest = GpuRequest(count=0)
    """GPUs on each node."""
    gres: dict[str, int] = Field(default_factory=dict)
    """Generic resources (GRES) other than GPUs on each node, by the scheduler's name (``shard``,
    ``fpga:u280``).
    """
    sbatch_options: tuple[SbatchAmount, ...] = ()
    """Options of sbatch that request the amounts above in Slurm; for amounts without one, Slurm gets
    ``--gres``, ``--mem`` and ``--ntasks-per-node``.
    """

    @model_validator(mode="after")
    def _no_type_without_gpu(self) -> Self:
        if self.gpu.count == 0 and self.gpu.type is not None:
            raise ValueError("a GPU type was named, but zero GPUs")
        return self
