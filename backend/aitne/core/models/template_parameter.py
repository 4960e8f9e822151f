"""Parameters of templates: their types, their limits, and the check of a value."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Strict, check_passable
from aitne.core.models.job import Scalar


class ParameterType(StrEnum):
    """Type of a parameter in the launch form, which determines its input control and the accepted
    values.
    """

    STRING = "string"
    TEXT = "text"
    """Text that may have several lines."""
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    PATH = "path"
    """Path of a file or folder on the cluster."""


class Parameter(Strict):
    """Parameter of a template, which is a field of its launch form. The job gets its value in the
    environment variable ``AITNE_PARAM_<NAME>``.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    type: ParameterType
    """Type of its value."""
    title: str = Field(min_length=1, max_length=100)
    description: str = ""
    default: Scalar | None = None
    """Default value; None: the user must enter a value."""
    minimum: float | None = Field(None, allow_inf_nan=False)
    maximum: float | None = Field(None, allow_inf_nan=False)
    choices: list[str] = Field(default_factory=list)
    """Permitted values; empty: all values of the type."""
    pattern: str | None = None
    """Regular expression that the whole value must match; None: any text."""
    max_length: int = Field(65_536, ge=1, le=1_000_000)
    """Maximum number of characters."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r} is not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        if (self.type is ParameterType.CHOICE) != bool(self.choices):
            raise ValueError("choices are required for type choice, and allowed only for it")
        return self

    def convert_value(self, value: Scalar) -> Scalar:
        """Return the value converted to the parameter's type.

        Raises ``ValueError`` with a description of the problem.
        """
        kind = self.type
        if kind is ParameterType.BOOLEAN:
            if not isinstance(value, bool):
                raise ValueError(f"{value!r} is not true or false")
            return value
        if kind in (ParameterType.INTEGER, ParameterType.NUMBER):
            return self._convert_number(value)
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text; write it in quotes")
        if kind is ParameterType.CHOICE:
            if value not in self.choices:
                raise ValueError(f"{value!r} is not one of the choices")
            return value
        if len(value) > self.max_length:
            raise ValueError(f"it has {len(value)} characters; the limit is {self.max_length}")
        if kind is ParameterType.PATH and not value:
            raise ValueError("a path is needed")
        if self.pattern is not None and re.fullmatch(self.pattern, value) is None:
            raise ValueError(f"{value!r} does not have the right form")
        return check_passable(value)

    def _convert_number(self, value: Scalar) -> Scalar:
        whole = self.type is ParameterType.INTEGER
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("infinite numbers and NaN are not possible")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is not {'a whole number' if whole else 'a number'}")
        if whole and isinstance(value, float):
            if not value.is_integer():
                raise ValueError(f"{value!r} is not a whole number")
            value = int(value)
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"{value} is less than {_format_bound(self.minimum)}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"{value} is more than {_format_bound(self.maximum)}")
        return value

    @property
    def allowed_values(self) -> str:
        """Return a description of the values that the parameter takes."""
        match self.type:
            case ParameterType.BOOLEAN:
                return "true or false"
            case ParameterType.CHOICE:
                return ", ".join(self.choices)
            case ParameterType.INTEGER | ParameterType.NUMBER:
                kind = "a whole number" if self.type is ParameterType.INTEGER else "a number"
                low, high = self.minimum, self.maximum
                if low is not None and high is not None:
                    return f"{kind} from {_format_bound(low)} to {_format_bound(high)}"
                if low is not None:
                    return f"{kind}, at least {_format_bound(low)}"
                return kind if high is None else f"{kind}, at most {_format_bound(high)}"
            case _:
                kind = "a path" if self.type is ParameterType.PATH else "text"
                form = "" if self.pattern is None else f" that matches {self.pattern}"
                return f"{kind} of at most {self.max_length} characters{form}"


def _format_bound(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
