"""The file a user writes: ``*.aitne.yml``, and the body of a request. Strict: what it does not know
is an error."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from aitne.core import units
from aitne.core.models.base import (
    Command,
    EnvName,
    EnvValue,
    Flag,
    JobName,
    ProjectName,
    Seconds,
    Strict,
    passable,
)
from aitne.core.models.dataset import DatasetReference
from aitne.core.models.image import IMAGE_REFERENCE
from aitne.core.models.job import JobType, Scalar
from aitne.core.models.resources import ResourcesFile
from aitne.core.models.sweep import SweepFile
from aitne.core.states import RETRYABLE, TerminationReason

RESERVED_ENV = (
    "AITNE_",
    "SLURM_",
    "JUPYTERHUB_",
    "APPTAINER",
    "SINGULARITY",
)
"""Prefixes that a job file's ``env`` may not set: the platform, the scheduler and the runtimes own
them."""
MAX_ENV_BYTES = 512 << 10
"""Names and values of ``env`` together: a program's arguments and environment share 2 MiB."""


OFF = "off"


def _passable(value: str | None) -> str | None:
    return None if value is None else passable(value)


def _off(value: object) -> object:
    """Return ``off`` for False, because YAML reads a bare ``off`` as false; other values as they
    are."""
    return OFF if value is False else value


class RetryFile(Strict):
    """Conditions and number of retries of a job that ended badly."""

    max: int = Field(1, strict=True, ge=0, le=100, description="Maximum number of retries.")
    on: list[TerminationReason] = Field(
        default_factory=lambda: [
            TerminationReason.NODE_FAILED,
            TerminationReason.PREEMPTED,
            TerminationReason.LOST,
        ],
        description="The reasons that start another attempt. Omitted: node_failed, preempted, lost.",
    )

    @field_validator("on")
    @classmethod
    def _retryable(cls, value: list[TerminationReason]) -> list[TerminationReason]:
        for reason in value:
            if reason not in RETRYABLE:
                raise ValueError(
                    f"{reason} is never retried; allowed: {', '.join(sorted(RETRYABLE))}"
                )
        return value


PLUGIN = r"^[a-z][a-z0-9_]{0,39}$"
"""A plug-in's name: its module's."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
SlurmName = Annotated[str, Field(pattern=_NAME)]
"""A partition, QOS, account or reservation, as Slurm lets it be named."""
SIGNAL = r"^(?:(?:SIG)?[A-Z][A-Z0-9]{1,9}|[1-9][0-9]?)@[1-9][0-9]{0,4}$"


class SlurmFile(Strict):
    """The ``slurm`` part of a job file: options that only Slurm has (sbatch's of these names)."""

    partition: Annotated[
        str | None,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(,[A-Za-z0-9][A-Za-z0-9_.-]{0,63}){0,19}$"),
    ] = Field(
        None,
        description="One partition, or several separated by commas: the first that can start "
        "the job is used.",
    )
    qos: SlurmName | None = Field(None, description="Quality of service.")
    account: SlurmName | None = Field(None, description="Slurm account; omitted: the project's.")
    constraint: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_.\-&|*()\[\],]{1,200}$")] = Field(
        None, description="Features that the nodes must have, such as nvlink&ib."
    )
    reservation: SlurmName | None = Field(None, description="The reservation that it runs in.")
    exclusive: Flag = Field(False, description="Whether no other job may run on its nodes.")
    requeue: Flag | None = Field(
        None, description="Whether Slurm may requeue it; omitted: as the job's retry permits."
    )
    signal: Annotated[str | None, Field(pattern=SIGNAL, examples=["USR1@120"])] = Field(
        None,
        description="A signal, and the number of seconds before the time limit at which it is "
        "sent.",
    )
    extra: list[
        Annotated[str, Field(pattern=r"^--[a-z][a-z-]{0,39}(=[ -~]{0,400})?$", max_length=450)]
    ] = Field(
        default_factory=list,
        max_length=20,
        description="Further options of sbatch that the site permits.",
    )


class ContainerFile(Strict):
    """The ``container`` part of a job file: how the image is run."""

    runtime: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")] = Field(
        None,
        description="apptainer or docker; omitted: the site's choice among those of the image.",
    )
    writable: Flag = Field(
        False,
        description="Whether the image's own files are writable; changes are lost when the job "
        "ends.",
    )
    network: Flag = Field(True, description="False: no network but loopback.")


class EnvironmentFile(Strict):
    """The ``environment`` part of a job file: software loaded on the node before the program."""

    modules: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+/-]{0,199}$")]] = Field(
        default_factory=list,
        max_length=50,
        examples=[["cuda/12.6"]],
        description="Environment modules to load, in this order.",
    )
    conda: Annotated[str | None, Field(max_length=4_096), AfterValidator(_passable)] = Field(
        None, description="The name or path of a conda environment."
    )
    venv: Annotated[str | None, Field(max_length=4_096), AfterValidator(_passable)] = Field(
        None, description="The path of a Python virtual environment, absolute or ~/..."
    )
    setup: list[Command] = Field(
        default_factory=list,
        max_length=100,
        description="Lines of bash that run before each command; the first that fails ends the job.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.conda is not None and self.venv is not None:
            raise ValueError("conda and venv exclude each other: choose one")
        return self


class DistributedFile(Strict):
    """The ``distributed`` part of a job file: its commands run on every rank of every node."""

    ranks_per_node: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=256,
        description="Omitted: one for each GPU of a node, else one.",
    )
    backend: Annotated[str, Field(pattern=PLUGIN, examples=["gloo"])] = Field(
        "auto",
        description="Transport of the tensors: auto, gloo, nccl, or the name of a transport.",
    )
    strategy: Annotated[str, Field(pattern=PLUGIN)] = Field(
        "allreduce", description="Strategy by which gradients are exchanged."
    )
    compress: Annotated[str, Field(pattern=PLUGIN, examples=["fp16"])] = Field(
        "none", description="Compressor of gradients."
    )


class JobFile(Strict):
    """A ``*.aitne.yml`` file, and the body of ``POST /api/v1/jobs`` and ``/sessions``: one
    schema."""

    type: JobType = Field(JobType.JOB, description="job or session.")
    name: JobName | None = Field(None, description="Any text; it is displayed and never executed.")
    project: ProjectName | None = Field(None, description="Omitted: your default project.")
    template: str | None = Field(None, max_length=100, description="A template's name.")
    parameters: dict[str, Scalar] = Field(
        default_factory=dict, max_length=200, description="Values of the template's parameters."
    )
    image: Annotated[
        str | None,
        Field(
            pattern=IMAGE_REFERENCE,
            examples=["jupyter", "jupyter:1.0"],
            description="Name of an image, name:version, or the path of an image file where the "
            "site permits it. Omitted: the template's image; bare: no image.",
        ),
    ] = None
    container: ContainerFile | None = Field(
        None, description="Options of the container; only with an image."
    )
    environment: EnvironmentFile | None = Field(
        None, description="Environment to load on the node; only without an image."
    )
    datasets: list[DatasetReference] = Field(
        default_factory=list,
        max_length=50,
        description="Datasets to read at $AITNE_DATASETS/<name>. Without a version: the newest.",
    )
    commands: list[Command] = Field(
        default_factory=list,
        max_length=1_000,
        description="Each runs under bash -c; the first that fails ends the job.",
    )
    distributed: DistributedFile | None = Field(
        None, description="Run the commands on many ranks that exchange tensors; only for jobs."
    )
    env: dict[EnvName, EnvValue] = Field(
        default_factory=dict, max_length=500, description="Environment variables."
    )
    secrets: list[EnvName] = Field(
        default_factory=list,
        max_length=50,
        description="Your secrets, set as environment variables of the same names.",
        examples=[["WANDB_API_KEY"]],
    )
    workdir: str | None = Field(
        None, max_length=4_096, description="An absolute path or one below home (~/...)."
    )
    resources: ResourcesFile = Field(
        default_factory=ResourcesFile,
        description="Requested resources; omitted ones come from the template or the site.",
    )
    max_duration: Annotated[Seconds | None, Field(description="Time limit, such as 4h.")] = None
    inactivity_duration: Annotated[
        Seconds | Literal["off"] | None,
        BeforeValidator(_off),
        Field(
            description="Time without activity after which a session ends; off: never. Omitted: the "
            "template's, else the site's. Only for sessions.",
            examples=["1h", "off"],
        ),
    ] = None
    retry: RetryFile | None = Field(
        None, description="Conditions of automatic retries. Omitted: none."
    )
    array: Annotated[str | None, Field(max_length=2_000, examples=["0-9%2"])] = Field(
        None,
        description="Run it once for each index, at most as many at once as the number after %; "
        "only for jobs.",
    )
    sweep: SweepFile | None = Field(
        None, description="Run it once for each parameter setting; only for jobs, instead of array."
    )
    after: list[UUID] = Field(
        default_factory=list,
        max_length=100,
        description="Jobs that must complete before it starts.",
    )
    slurm: SlurmFile | None = Field(
        None, description="Options of Slurm; only where Slurm is the scheduler."
    )

    @field_validator("array")
    @classmethod
    def _array(cls, value: str | None) -> str | None:
        return None if value is None else str(units.parse_array(value))

    @field_validator("env")
    @classmethod
    def _env(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.startswith(RESERVED_ENV):
                raise ValueError(
                    f"{name} belongs to the platform; choose a name without its prefix"
                )
        size = sum(len(f"{name}={text}".encode()) + 1 for name, text in value.items())
        if size > MAX_ENV_BYTES:
            raise ValueError(
                f"all variables together have {size} bytes; allowed: {MAX_ENV_BYTES}; "
                "put large values into files"
            )
        return value

    @field_validator("workdir")
    @classmethod
    def _workdir(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")) and value != "~":
            raise ValueError("write an absolute path, or one below home such as ~/project")
        return None if value is None else passable(value)
