"""Templates: each YAML file defines one launch form and the defaults of its jobs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from aitne.core.models.base import Command, EnvName, EnvValue, MemoryBytes, Seconds, Strict, Written
from aitne.core.models.image import BARE, IMAGE_REFERENCE
from aitne.core.models.job import AppSpec, JobType, Readiness
from aitne.core.models.job_file import is_reserved
from aitne.core.models.resources import Gpu, GpuRequest
from aitne.core.models.template_parameter import Parameter, ParameterType


class Limit(Strict):
    """Amount in the launch form with its default and its bounds for this template; a field that is
    None, or that the class does not have, is not limited.
    """

    unit: ClassVar[str] = ""

    @property
    def problem(self) -> str | None:
        """Return why the default is not within the bounds; None if it is."""
        default, low, high = (getattr(self, name, None) for name in ("default", "min", "max"))
        amount = default.count if isinstance(default, GpuRequest) else default
        if amount is not None and low is not None and amount < low:
            return f"{default}{self.unit} is less than min ({low}{self.unit})"
        if amount is not None and high is not None and amount > high:
            return f"{default}{self.unit} is more than max ({high}{self.unit})"
        return None


class IntLimit(Limit):
    """Number in the launch form, such as the number of nodes, with its default and bounds."""

    default: int
    min: int = 0
    max: int | None = None


class MemoryLimit(Limit):
    """Memory per node with its default and its bounds for this template."""

    default: MemoryBytes | None = None
    """None: the scheduler's default."""
    min: MemoryBytes = 1 << 20
    max: MemoryBytes | None = None


class GpuLimit(Limit):
    """GPUs per node with their default and maximum for this template."""

    default: Gpu = GpuRequest(count=0)
    max: int | None = Field(None, ge=0)


class DurationLimit(Limit):
    """Time limit with its default and maximum for this template."""

    unit: ClassVar[str] = " s"

    default: Seconds | None = None
    """None: the scheduler's default."""
    max: Seconds | None = None


class InactivityLimit(Strict):
    """Inactivity duration of a session (time without activity after which it ends), with its
    default and maximum.
    """

    default: Seconds | None = None
    max: Seconds | None = None


class ReadinessFile(Readiness):
    """``Readiness`` as a template file contains it; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AppFile(AppSpec):
    """``AppSpec`` as a template file contains it; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    readiness: ReadinessFile = ReadinessFile()
    """Check by which the agent determines that the app answers."""


class TemplateResources(Strict):
    """Resources in the launch form, with defaults and bounds; an omitted resource cannot be changed
    there.
    """

    nodes: IntLimit = IntLimit(default=1, min=1, max=1)
    """Number of nodes of the job."""
    cpu: IntLimit = IntLimit(default=1, min=1)
    """Number of CPUs on each node."""
    memory: MemoryLimit = MemoryLimit()
    """Memory on each node, in bytes."""
    gpu: GpuLimit = Field(default_factory=GpuLimit)
    """Number and type of GPUs on each node."""
    max_duration: DurationLimit = DurationLimit()
    """Time limit of the job."""
    inactivity_duration: InactivityLimit = InactivityLimit()
    """Time without activity after which a session ends."""


class TemplateDistributed(Strict):
    """Distribution of a template's commands over ranks: which parameters of the launch form set the
    number of ranks per node and the backend. A field that is None has the default of a job file.
    """

    ranks_per_node_from: str | None = None
    """Name of the integer parameter with the number of ranks per node; its value 0 means one rank
    for each GPU of a node, or one rank without GPUs.
    """
    backend_from: str | None = None
    """Name of the choice parameter with the backend."""


class Template(Written):
    """Content of a template file, ``jobtemplates/*.yaml``."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,59}$")]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    title: str = Field(min_length=1, max_length=100)
    description: str = ""
    icon: str = "terminal"
    """Name of an icon in the portal's icon set; an unknown name has the default icon."""
    type: JobType
    """Type of the jobs that are created from it."""
    image: Annotated[str, Field(pattern=IMAGE_REFERENCE)] = BARE
    """Default image; a user may choose another one that has the template's apps."""
    parameters: list[Parameter] = Field(default_factory=list)
    """Parameters of the template, which are fields of its launch form."""
    resources: TemplateResources = Field(default_factory=TemplateResources)
    """Resources in the launch form, with their defaults and bounds."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    commands: list[Command] = Field(default_factory=list)
    """Commands that run one after the other; a session has none."""
    apps: list[AppFile] = Field(default_factory=list)
    """Apps that a session starts; empty for batch jobs."""
    distributed: TemplateDistributed | None = None
    """Distribution of the commands over ranks; None: they run without ranks. In a session, the
    ranks execute cells of its notebooks.
    """
    workdir_from: str | None = None
    """Name of the path parameter whose value becomes the working folder; None: the home folder."""

    @field_validator("env")
    @classmethod
    def _check_env(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if is_reserved(name):
                raise ValueError(
                    f"{name} belongs to the platform; choose a name without its prefix"
                )
        return value

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        if len(names) != len(set(names)):
            raise ValueError("two parameters have the same name")
        if self.type is JobType.SESSION and not self.apps:
            raise ValueError("a session needs at least one app")
        if self.apps and self.apps[0].optional:
            raise ValueError("apps: the first one is the session, so it cannot be optional")
        if self.type is JobType.JOB and not self.commands:
            raise ValueError("a job needs at least one command")
        folders = {p.name for p in self.parameters if p.type is ParameterType.PATH}
        if self.workdir_from is not None and self.workdir_from not in folders:
            raise ValueError(f"workdir_from: {self.workdir_from} is not a parameter of type path")
        if self.distributed is not None:
            self._check_parameter_reference("ranks_per_node_from", ParameterType.INTEGER)
            self._check_parameter_reference("backend_from", ParameterType.CHOICE)
        return self

    @property
    def offers_ranks(self) -> bool:
        """Return whether sessions of this template may have ranks, which execute cells of their
        notebooks.
        """
        return self.distributed is not None or self.resources.nodes.max != 1

    def _check_parameter_reference(self, field: str, kind: ParameterType) -> None:
        name = getattr(self.distributed, field)
        parameter = None if name is None else self.find_parameter(name)
        if name is not None and (parameter is None or parameter.type is not kind):
            raise ValueError(f"distributed.{field}: {name} is not a parameter of type {kind}")

    def find_parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name; None if there is none."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)
