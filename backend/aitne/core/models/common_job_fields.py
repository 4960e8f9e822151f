"""Fields of a job file that are copied unchanged to the job.

``JobFile``, ``JobSpec`` and ``JobView`` inherit them from ``JobOptions``, so a field that needs no
resolution is declared only once.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from aitne.core.models.base import (
    Command,
    DurationText,
    EnvName,
    Flag,
    Seconds,
    Strict,
    UtcTime,
    check_passable,
    convert_duration,
)
from aitne.core.models.job_source import RepoOptions
from aitne.core.models.notebook_job import NotebookOptions
from aitne.core.models.placement import NODE_LIST, PlacementSpec
from aitne.core.units import format_duration

T = TypeVar("T")

PLUGIN = r"^[a-z][a-z0-9_]{0,39}$"
"""Pattern of a plug-in's name, which is the name of its module."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
SlurmName = Annotated[str, Field(pattern=f"^{_NAME}$")]
"""Name of a partition, QOS, account or reservation, in the form that Slurm permits."""
LICENSES = r"^[A-Za-z0-9_@.:-]{1,100}([,|;][A-Za-z0-9_@.:-]{1,100}){0,19}$"
LogFile = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4_000)]
EXTRA = r"^--[a-z][a-z-]{0,39}(=[ -~]{0,400})?$"
MOST_EXTRA = 64
MOST_ARGS = 1_000
Argument = Annotated[str, Field(max_length=65_536), AfterValidator(check_passable)]
"""Argument of a job's commands."""
SIGNAL = r"^(?:(?:B|steps):)?(?:(?:SIG)?[A-Z][A-Z0-9]{1,9}|[1-9][0-9]?)@[1-9][0-9]{0,4}$"


def _check_passable(value: str | None) -> str | None:
    return None if value is None else check_passable(value)


def _null_as_default(options: type[Strict]) -> BeforeValidator:
    return BeforeValidator(
        lambda value: options() if value is None else value, json_schema_input_type=options | None
    )


def _wrap_in_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _remove_duplicates(values: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _convert_begin(value: object) -> object:
    """Return the value as a time in UTC or a number of seconds.

    Raises ``ValueError`` if it is neither.
    """
    read: object = None
    if isinstance(value, str):
        with suppress(ValueError):
            read = datetime.fromisoformat(value)
    with suppress(ValueError):
        read = convert_duration(value) if read is None else read
    if type(read) is int and 1 <= read <= _MOST_DELAY_S:
        return read
    if isinstance(read, datetime) and read.tzinfo is not None:
        with suppress(OverflowError):
            return read.astimezone(UTC)
    raise ValueError(
        "write a time with its time zone, such as 2026-01-31T20:00:00Z, or a duration of up to 10 "
        "years after the submission, such as 2h"
    )


_MOST_DELAY_S = 10 * 365 * 86_400
MOST_DEPENDENCIES = 100
DEPENDENCIES = ("after", "afterany", "afternotok", "aftercorr")
"""Fields of a job file that contain the IDs of other jobs."""
JobIds = Annotated[tuple[UUID, ...], AfterValidator(_remove_duplicates)]
Begin = Annotated[
    UtcTime | Annotated[int, Field(strict=True, ge=1, le=_MOST_DELAY_S)],
    BeforeValidator(_convert_begin, json_schema_input_type=AwareDatetime | DurationText),
]
"""Earliest start of a job: a time, or a number of seconds after the submission."""


class SlurmOptions(Strict):
    """Content of ``slurm`` in a job file: options that exist only in Slurm.

    A field is passed as the option of sbatch with the same name, unless
    ``adapters/schedulers/_slurm/sbatch_arguments.py`` defines another one.
    """

    partition: Annotated[str | None, Field(pattern=f"^{_NAME}(,{_NAME}){{0,19}}$")] = Field(
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
        None,
        description="Whether Slurm may requeue it; omitted: as the job's retry permits, and without "
        "retry Slurm's JobRequeue decides.",
    )
    signal: Annotated[str | None, Field(pattern=SIGNAL, examples=["USR1@120"])] = Field(
        None,
        description="A signal, and the number of seconds before the time limit at which it is "
        "sent to all processes of the commands; with B: to the shell of the command alone, with "
        "steps: to the tasks that srun has started, as sbatch does with and without B:.",
    )
    licenses: Annotated[str | None, Field(pattern=LICENSES, examples=["matlab:1"])] = Field(
        None, description="Licences that it takes while it runs: name:count, separated by commas."
    )
    exclude: Annotated[str | None, Field(pattern=NODE_LIST, examples=["n[3-4],n7"])] = Field(
        None, description="Nodes that it must not run on."
    )
    nice: int | None = Field(
        None,
        strict=True,
        ge=0,
        le=2_147_483_645,
        description="By how much its priority is lowered.",
    )
    time_min: Annotated[Seconds | None, Field(examples=["1h"])] = Field(
        None,
        description="Time limit, such as 1h, to which Slurm may reduce max_duration "
        "so that the job starts earlier.",
    )
    extra: tuple[
        Annotated[str, Field(pattern=EXTRA, max_length=450)],
        ...,
    ] = Field(
        default_factory=tuple,
        max_length=MOST_EXTRA,
        description="Further options of sbatch that the site permits.",
    )


class ContainerOptions(Strict):
    """Content of ``container`` in a job file: how a container of the image is started."""

    runtime: Annotated[str | None, Field(pattern=PLUGIN)] = Field(
        None,
        description="apptainer or docker; omitted: the site's choice among those of the image.",
    )
    writable: Flag = Field(
        False,
        description="Whether the image's own files are writable; changes are lost when the job "
        "ends.",
    )
    network: Flag = Field(True, description="False: no network but loopback.")


class EnvironmentOptions(Strict):
    """Content of ``environment`` in a job file: software that is loaded on the node before the
    program starts.
    """

    modules: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+/-]{0,199}$")], ...] = (
        Field(
            default_factory=tuple,
            max_length=50,
            examples=[["cuda/12.6"]],
            description="Environment modules to load, in this order.",
        )
    )
    conda: Annotated[str | None, Field(max_length=4_096), AfterValidator(_check_passable)] = Field(
        None, description="The name or path of a conda environment."
    )
    venv: Annotated[str | None, Field(max_length=4_096), AfterValidator(_check_passable)] = Field(
        None, description="The path of a Python virtual environment, absolute or ~/..."
    )
    setup: tuple[Command, ...] = Field(
        default_factory=tuple,
        max_length=100,
        description="Lines of bash that run before each command; the first that fails ends the job.",
    )

    @model_validator(mode="after")
    def _check_one_environment(self) -> Self:
        if self.conda is not None and self.venv is not None:
            raise ValueError("conda and venv exclude each other: choose one")
        return self


class DistributedOptions(BaseModel):
    """Transport, strategy and compressor with which the ranks of a program exchange tensors."""

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
    horovod: bool = Field(
        False,
        strict=True,
        description="Run scripts for Horovod unmodified: import horovod.torch is aitne_train.",
    )


class JobOptions(BaseModel):
    """Fields that are copied unchanged from a job file to the job; ``null`` is the same as an
    omitted field.
    """

    container: Annotated[ContainerOptions, _null_as_default(ContainerOptions)] = Field(
        default_factory=ContainerOptions,
        description="Options of the container; only with an image.",
    )
    environment: Annotated[EnvironmentOptions, _null_as_default(EnvironmentOptions)] = Field(
        default_factory=EnvironmentOptions,
        description="Environment to load on the node; only without an image.",
    )
    repo: RepoOptions | None = Field(
        None,
        description="Git repository in which the job runs: cloned before it starts; only for jobs, "
        "without tree and workdir.",
    )
    args: tuple[Argument, ...] = Field(
        default_factory=tuple,
        max_length=MOST_ARGS,
        description='Arguments of each command: $1, "$@" and so on; only with commands.',
        examples=[["config.yml", "4"]],
    )
    script_path: Annotated[
        str | None, Field(min_length=1, max_length=4_096), AfterValidator(_check_passable)
    ] = Field(
        None,
        description="Path of the batch script that the command is a copy of: in full, below ~ or "
        "from its workdir. It is a record only: the job runs the copy.",
        examples=["job.sbatch"],
    )
    notebook: NotebookOptions | None = Field(
        None, description="Notebook that the job runs, instead of commands; only for jobs."
    )
    secrets: Annotated[tuple[EnvName, ...], AfterValidator(_remove_duplicates)] = Field(
        default_factory=tuple,
        max_length=50,
        description="The owner's secrets, set as environment variables of the same names.",
        examples=[["WANDB_API_KEY"]],
    )
    after: JobIds = Field(
        default_factory=tuple,
        max_length=MOST_DEPENDENCIES,
        description="Jobs that must complete before it starts (Slurm's afterok).",
    )
    afterany: JobIds = Field(
        default_factory=tuple,
        max_length=MOST_DEPENDENCIES,
        description="Jobs that must have ended before it starts, in whatever state.",
    )
    afternotok: JobIds = Field(
        default_factory=tuple,
        max_length=MOST_DEPENDENCIES,
        description="Jobs that must have ended without completing before it starts.",
    )
    aftercorr: JobIds = Field(
        default_factory=tuple,
        max_length=MOST_DEPENDENCIES,
        description="Array jobs: a task starts after the task with the same index of these array "
        "jobs has completed.",
    )
    singleton: Flag = Field(
        default_factory=bool,
        description="Whether all earlier jobs of its owner with its name must have ended.",
    )
    begin: Begin | None = Field(
        None,
        description="Earliest start: a time with its time zone, or a duration after the "
        "submission.",
        examples=["2026-01-31T20:00:00Z", "2h"],
    )
    hold: Flag = Field(default_factory=bool, description="Whether it waits until it is released.")
    log_files: Annotated[
        tuple[LogFile, ...], BeforeValidator(_wrap_in_list, json_schema_input_type=list[str] | str)
    ] = Field(
        default_factory=tuple,
        max_length=4,
        description="Paths at which the job's log also appears: in full, below ~ or from its "
        "workdir, with wildcards as in sbatch's --output, such as %j.",
        examples=[["train-%j.log"]],
    )
    placement: Annotated[PlacementSpec, _null_as_default(PlacementSpec)] = Field(
        default_factory=PlacementSpec,
        description="On which nodes it runs, and how its ranks are ordered and bound there.",
    )
    slurm: Annotated[SlurmOptions, _null_as_default(SlurmOptions)] = Field(
        default_factory=SlurmOptions,
        description="Options of Slurm; only where Slurm is the scheduler.",
    )


_DURATIONS = ((None, "begin"), ("slurm", "time_min"), ("placement", "wait"))
"""Durations among the options: the section, if they are in one, and the name."""


def format_durations(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a job as JSON values with their durations as a user writes them."""
    written = dict(options)
    for section, name in _DURATIONS:
        values = written if section is None else dict(written.get(section) or {})
        if isinstance(values.get(name), int):
            values[name] = format_duration(values[name])
            written |= {} if section is None else {section: values}
    return written
