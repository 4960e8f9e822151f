"""Parameter sweeps: one program that runs once for each parameter setting, and the results of these
runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from aitne.core.float_encoding import decode_float
from aitne.core.jobs.states import JobState
from aitne.core.models.base import Flag, Frozen, Strict, UtcTime

MOST_TASKS = 1_000
MOST_PARAMETERS = 20
MOST_CHOICES = 200
MOST_LETTERS = 1 << 20
"""Maximum number of characters of all settings together, because a short file could otherwise
create settings of many megabytes.
"""

Scalar = str | int | float | bool
ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
MetricName = Annotated[str, Field(min_length=1, max_length=100, examples=["accuracy"])]
Text = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00]*$")]
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def _convert_number(value: object) -> object:
    """Return the number for a text such as ``1e-3``, which YAML 1.1 does not read as a number, and
    for an encoded one; other values are returned unchanged.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    return decode_float(value)


Choice = bool | Annotated[int, Field(ge=-(1 << 53), le=1 << 53)] | float | Text


def _pair_with_types(choices: Sequence[Any]) -> list[tuple[type, Any]]:
    """Return each value with its type, because 1, 1.0 and true are equal in Python."""
    return [(type(choice), choice) for choice in choices]


def _find_duplicate(choices: Sequence[Any]) -> int | None:
    """Return the index of the first value that occurred before; None if all values differ."""
    seen = set()
    for index, key in enumerate(_pair_with_types(choices)):
        if key in seen:
            return index
        seen.add(key)
    return None


class Method(StrEnum):
    """Method by which a sweep chooses its parameter settings."""

    GRID = "grid"
    """All combinations of the values of all parameters."""
    RANDOM = "random"
    """Given number of random parameter settings."""
    LIST = "list"
    """First values of all parameters together, then the second values, and so on."""


class Goal(StrEnum):
    """Direction of a metric: whether smaller or larger values are better."""

    MIN = "min"
    MAX = "max"


class NumberType(StrEnum):
    """Type of the numbers that are drawn from a range."""

    FLOAT = "float"
    INT = "int"


class Range(Strict):
    """Range of numbers from which a random sweep draws the values of a parameter."""

    min: float = Field(allow_inf_nan=False, description="Smallest number.")
    max: float = Field(allow_inf_nan=False, description="Largest number.")
    log: Flag = Field(
        False,
        description="Whether to draw uniformly on a logarithmic scale, as for learning rates.",
    )
    type: NumberType = Field(NumberType.FLOAT, description="float, or int: whole numbers.")

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.min >= self.max:
            raise ValueError("min has to be less than max")
        if self.log and self.min <= 0:
            raise ValueError("a range with log begins above 0")
        if self.type is NumberType.INT and not (self.min.is_integer() and self.max.is_integer()):
            raise ValueError("a range of type int has whole numbers as its ends")
        if max(abs(self.min), abs(self.max)) > 1e300:
            raise ValueError("its ends are larger than 1e300")
        return self


class StopWhen(Strict):
    """Condition under which the result of one task is good enough to cancel the other tasks."""

    value: float = Field(allow_inf_nan=False, description="Value that is good enough.")
    metric: MetricName | None = Field(
        None, description="Metric of the condition; omitted: the sweep's."
    )
    goal: Goal | None = Field(None, description="Direction of the metric; omitted: the sweep's.")


class SweepFile(Strict):
    """Content of ``sweep`` in a job file: the job becomes an array with one task for each parameter
    setting.
    """

    method: Method = Field(
        Method.GRID,
        description="grid: every combination; random: a number of samples; list: the first "
        "values together, then the second ones, and so on.",
    )
    parameters: dict[
        ParameterName,
        Range
        | Annotated[
            list[Annotated[Choice, BeforeValidator(_convert_number)]],
            Field(min_length=1, max_length=MOST_CHOICES),
        ],
    ] = Field(
        min_length=1,
        max_length=MOST_PARAMETERS,
        description="For each name its values; a random sweep also takes {min, max, log, type}.",
        examples=[{"lr": [0.1, 0.01], "batch": [32, 64]}],
    )
    samples: int | None = Field(
        None, strict=True, ge=1, le=MOST_TASKS, description="Number of settings; only for random."
    )
    seed: int = Field(
        0, strict=True, ge=0, le=(1 << 53) - 1, description="Seed of the random samples."
    )
    max_parallel: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=MOST_TASKS,
        description="Maximum number of tasks that run at once.",
    )
    metric: MetricName | None = Field(None, description="Metric by which the settings are ranked.")
    goal: Goal = Field(Goal.MAX, description="Whether a larger or a smaller value is better.")
    stop_when: StopWhen | None = Field(
        None,
        description="Condition under which the other tasks are cancelled as soon as one meets it.",
    )

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, value: dict[str, Range | list[Any]]) -> dict[str, Range | list[Any]]:
        folded = [name.upper() for name in value]
        if len(set(folded)) < len(folded):
            raise ValueError("two names differ only in upper and lower case")
        for name, choices in value.items():
            if isinstance(choices, Range):
                continue
            if any(isinstance(choice, float) and not math.isfinite(choice) for choice in choices):
                raise ValueError(
                    f"{name}: infinite numbers and NaN are not possible; write text that the program "
                    "reads, such as 'inf'"
                )
        return value

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        lists = {n: v for n, v in self.parameters.items() if not isinstance(v, Range)}
        if self.method is Method.RANDOM:
            if self.samples is None:
                raise ValueError("a random sweep needs a number of `samples`")
        else:
            if self.samples is not None:
                raise ValueError(f"`samples` is only for random; a {self.method} takes all values")
            if ranges := sorted(self.parameters.keys() - lists.keys()):
                raise ValueError(
                    f"{ranges[0]}: a range is only for random; give a {self.method} its values"
                )
        if self.method is Method.LIST:
            self._check_list(lists)
        else:
            for name, choices in lists.items():
                if _find_duplicate(choices) is not None:
                    raise ValueError(f"{name}: the same value is listed twice")
        if self.method is Method.GRID and math.prod(map(len, lists.values())) > MOST_TASKS:
            raise ValueError(
                f"a grid of {math.prod(map(len, lists.values()))} settings is too large; the maximum is "
                f"{MOST_TASKS}; a random sweep tries some of them"
            )
        if (letters := self._count_max_characters(lists)) > MOST_LETTERS:
            raise ValueError(
                f"all settings together have {letters} characters; the maximum is {MOST_LETTERS}: "
                "use short names for the values, and let the program map them"
            )
        if self.stop_when is not None and (self.stop_when.metric or self.metric) is None:
            raise ValueError("`stop_when` needs a metric: name it there or as the sweep's own")
        return self

    def _check_list(self, lists: dict[str, list[Any]]) -> None:
        if len({len(choices) for choices in lists.values()}) > 1:
            raise ValueError("the parameters of a list need the same number of values")
        settings = list(zip(*map(_pair_with_types, lists.values()), strict=True))
        if (again := _find_duplicate(settings)) is not None:
            first = settings.index(settings[again])
            raise ValueError(
                f"the same setting is listed twice: its values {first + 1} and {again + 1}"
            )

    def _count_max_characters(self, lists: dict[str, list[Any]]) -> int:
        """Return the maximum number of characters that the values of all settings could have
        together.
        """
        counts = [len(choices) for choices in lists.values()]
        grid = self.method is Method.GRID
        tasks = self.samples or (math.prod(counts) if grid else max(counts, default=1))
        longest = (max(len(str(choice)) for choice in choices) for choices in lists.values())
        return tasks * sum(longest)


class RangeSpec(Frozen):
    """Range of numbers, with all defaults of ``Range`` filled in."""

    min: float
    max: float
    log: bool = False
    """Whether to draw uniformly on a logarithmic scale, as for learning rates."""
    type: NumberType = NumberType.FLOAT


class StopSpec(Frozen):
    """Condition of ``StopWhen`` with its defaults filled in."""

    metric: str
    """Name of the metric that is compared."""
    goal: Goal
    """Whether larger or smaller values of the metric are better."""
    value: float
    """Value of the metric with which the sweep has reached its goal."""

    def is_met(self, value: float | None) -> bool:
        """Return whether a task with this value of the metric has reached the goal; False if
        ``value`` is None.
        """
        if value is None:
            return False
        return value >= self.value if self.goal is Goal.MAX else value <= self.value


class SweepSpec(Frozen):
    """A sweep with all defaults filled in: which parameter settings its tasks try, and when it
    stops.

    It is made from the ``SweepFile`` of a job file; ``core.sweeps.expand_sweep`` derives one parameter
    setting for each task from it.
    """

    method: Method
    """Method by which parameter settings are chosen."""
    parameters: dict[str, RangeSpec | tuple[Scalar, ...]]
    """Values or range of each parameter, by name."""
    samples: int | None = None
    """Number of random settings; None for other methods."""
    seed: int = 0
    """Seed of the random numbers: the same seed results in the same settings."""
    max_parallel: int | None = None
    """Maximum number of tasks that run at once; None means no maximum."""
    metric: str | None = None
    """Name of the metric by which settings are ranked; None: they are not ranked."""
    goal: Goal = Goal.MAX
    """Whether larger or smaller values of the metric are better."""
    stop_when: StopSpec | None = None
    """Condition under which the remaining tasks are cancelled; None: all tasks run."""

    @classmethod
    def from_file(cls, file: SweepFile) -> SweepSpec:
        """Return the sweep of a job file with its defaults filled in."""
        stop = file.stop_when
        fields = file.model_dump(exclude={"stop_when"})
        if stop is not None:
            fields["stop_when"] = {
                "metric": stop.metric or file.metric,
                "goal": stop.goal or file.goal,
                "value": stop.value,
            }
        return cls.model_validate(fields)


NotFinite = Annotated[
    dict[str, Literal["nan", "inf", "-inf"]],
    Field(description="Metrics whose last value is no number or infinite, which have no value."),
]


class Results(Frozen):
    """Metrics of a job's program, which its agent has read from files that the program writes."""

    # A program may send any value, and neither databases nor JSON represent infinity.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    schema_: int = Field(1, alias="schema", description="Version of this schema.")
    updated_at: UtcTime = Field(description="Time of the last reading.")
    values: dict[str, float] = Field(
        default_factory=dict, description="The last value of each metric, if it is finite."
    )
    not_finite: NotFinite = Field(default_factory=dict)
    series: dict[str, tuple[tuple[float, float], ...]] = Field(
        default_factory=dict, description="Step and value, thinned where there are many."
    )
    sources: tuple[str, ...] = Field((), description="Files from which they were read.")
    notes: tuple[str, ...] = Field((), description="Problems with reading, as sentences.")


class SweepTask(Frozen):
    """Task of a sweep: its parameter setting and its results."""

    task: int = Field(description="The task's index in the array.")
    job_id: UUID = Field(description="The task's own id.")
    state: JobState = Field(description="State of the task.")
    parameters: dict[str, Scalar] = Field(description="Parameter setting of the task.")
    values: dict[str, float] = Field(
        description="The last value of each metric, if it is finite; by the others it is not ranked."
    )
    not_finite: NotFinite = Field(default_factory=dict)
    started_at: UtcTime | None = Field(description="Time at which its program started.")
    ended_at: UtcTime | None = Field(description="Time at which it ended.")


class Sweep(Frozen):
    """Sweep of an array job, with all its tasks."""

    job_id: UUID = Field(description="Id of the array job.")
    method: Method = Field(description="Method by which the settings were chosen.")
    parameters: list[str] = Field(
        description="Names of the parameters, in the order of the job file."
    )
    metric: str | None = Field(description="Metric by which the settings are ranked.")
    goal: Goal = Field(description="Whether a larger or a smaller value is better.")
    stop_when: StopSpec | None = Field(
        description="Condition under which the other tasks are cancelled."
    )
    best: int | None = Field(description="The task with the best value so far.")
    tasks: list[SweepTask] = Field(description="Tasks by index.")
