"""Job file, which users write as ``*.aitne.yml`` or send as a request body. Unknown fields are
errors.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
)

from aitne.core import units
from aitne.core.float_encoding import decode_float
from aitne.core.jobs.command_arguments import parse_interpreter
from aitne.core.jobs.states import RETRYABLE, TerminationReason
from aitne.core.models.base import (
    Command,
    EnvName,
    EnvValue,
    JobName,
    ProjectName,
    Seconds,
    Strict,
    Written,
    check_passable,
    convert_off,
)
from aitne.core.models.common_job_fields import DistributedOptions, JobOptions, format_durations
from aitne.core.models.dataset import DatasetReference
from aitne.core.models.image import IMAGE_REFERENCE
from aitne.core.models.job import JobType, Scalar
from aitne.core.models.job_source import TreeDigest
from aitne.core.models.resources import ResourcesFile
from aitne.core.models.sweep import SweepFile
from aitne.core.units import format_duration

RESERVED_ENV = (
    "AITNE_",
    "SLURM_",
    "JUPYTERHUB_",
    "APPTAINER",
    "SINGULARITY",
)
"""Prefixes of variables that a job file's ``env`` must not set, because the platform, the scheduler
and the runtimes use them.
"""
SBATCH_ENV = frozenset(
    {"SLURM_EXPORT_ENV", "SLURM_GET_USER_ENV", "SLURM_JOB_DEPENDENCY", "SLURM_SUBMIT_DIR"}
)
"""Variables with these prefixes that ``env`` may set, because sbatch sets them by its options and folder;
programs of an imported script and ``srun`` read them.
"""
MAX_ENV_BYTES = 512 << 10
"""Maximum number of bytes of all names and values in ``env``; a program's arguments and environment
have 2 MiB together.
"""


MAX_SCRIPTS = 50
"""Maximum number of commands in a job that are scripts, because each becomes a file in the job
folder.
"""


def is_reserved(name: str) -> bool:
    """Return whether a job file's ``env`` must not set the variable ``name``."""
    return name.startswith(RESERVED_ENV) and name not in SBATCH_ENV


def _wrap_in_list(value: object) -> object:
    """Return a list with the text as its only entry; values other than text are returned
    unchanged.
    """
    return [value] if isinstance(value, str) else value


class RetryFile(Strict):
    """Conditions under which a failed job is retried, and the number of retries."""

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
    def _check_retryable(cls, value: list[TerminationReason]) -> list[TerminationReason]:
        for reason in value:
            if reason not in RETRYABLE:
                raise ValueError(
                    f"{reason} is never retried; allowed: {', '.join(sorted(RETRYABLE))}"
                )
        return value


class DistributedFile(DistributedOptions, Strict):
    """Content of ``distributed`` in a job file. If it is present, each command of the job is run
    once per rank, with ``ranks_per_node`` ranks on every node.
    """

    ranks_per_node: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=256,
        description="Omitted: one for each GPU of a node, else one.",
    )


class JobFile(JobOptions, Written):
    """Content of a ``*.aitne.yml`` file, and of the body of ``POST /api/v1/jobs`` and
    ``/sessions``.
    """

    type: JobType = Field(JobType.JOB, description="job or session.")
    name: JobName | None = Field(None, description="Any text; it is displayed and never executed.")
    project: ProjectName | None = Field(None, description="Omitted: your default project.")
    template: str | None = Field(None, max_length=100, description="A template's name.")
    parameters: dict[str, Annotated[Scalar, BeforeValidator(decode_float)]] = Field(
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
    datasets: list[DatasetReference] = Field(
        default_factory=list,
        max_length=50,
        description="Datasets to read at $AITNE_DATASETS/<name>. Without a version: the newest.",
    )
    commands: Annotated[
        list[Command],
        BeforeValidator(_wrap_in_list, json_schema_input_type=list[Command] | Command),
    ] = Field(
        default_factory=list,
        max_length=1_000,
        description="Each runs under bash -c, or by the interpreter of its first line if that is "
        "#!/...; the first that fails ends the job. A single one may be written without a list.",
    )
    distributed: DistributedFile | None = Field(
        None, description="Run the commands on many ranks that exchange tensors; only for jobs."
    )
    env: dict[EnvName, EnvValue] = Field(
        default_factory=dict,
        max_length=500,
        description="Environment variables. A number, true and false are taken as text.",
    )
    workdir: str | None = Field(
        None, max_length=4_096, description="An absolute path or one below home (~/...)."
    )
    tree: TreeDigest | None = Field(
        None,
        description="sha256 of an uploaded tree, in a copy of which the job runs: what "
        "`aitne apply --sync` sets; only for jobs, without repo and workdir.",
    )
    resources: ResourcesFile = Field(
        default_factory=ResourcesFile,
        description="Requested resources; omitted ones come from the template or the scheduler.",
    )
    max_duration: Annotated[
        Seconds | None,
        Field(
            description="Time limit, such as 4h. Omitted: the template's, else the scheduler's "
            "default."
        ),
    ] = None
    inactivity_duration: Annotated[
        Seconds | Literal["off"] | None,
        BeforeValidator(convert_off),
        Field(
            description="Time without activity after which a session ends; off: never. Omitted: the "
            "template's, else the site's. Only for sessions.",
            examples=["1h", "off"],
        ),
    ] = None
    retry: RetryFile | None = Field(
        None,
        description="Conditions of automatic retries. Omitted: none, but Slurm may requeue "
        "the job (slurm.requeue).",
    )
    array: Annotated[str | None, Field(max_length=2_000, examples=["0-9%2"])] = Field(
        None,
        description="Run it once for each index, at most as many at once as the number after %; "
        "only for jobs.",
    )
    sweep: SweepFile | None = Field(
        None, description="Run it once for each parameter setting; only for jobs, instead of array."
    )

    @field_serializer("max_duration", "inactivity_duration", when_used="json-unless-none")
    def _serialize_duration(self, value: int | str) -> str:
        return format_duration(value) if isinstance(value, int) else value

    # Without a type of its result, its schema is still that of the model.
    @model_serializer(mode="wrap", when_used="json")
    def _serialize_with_units(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return format_durations(handler(self))

    @field_validator("commands")
    @classmethod
    def _check_commands(cls, value: list[str]) -> list[str]:
        if sum(parse_interpreter(command) is not None for command in value) > MAX_SCRIPTS:
            raise ValueError(f"at most {MAX_SCRIPTS} of the commands may begin with #!")
        return value

    @field_validator("array")
    @classmethod
    def _normalize_array(cls, value: str | None) -> str | None:
        return None if value is None else str(units.parse_array(value))

    @field_validator("env")
    @classmethod
    def _check_env(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if is_reserved(name):
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
    def _check_workdir(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")) and value != "~":
            raise ValueError("write an absolute path, or one below home such as ~/project")
        return None if value is None else check_passable(value)
