"""Base classes and annotated types that the models share."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    computed_field,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import PydanticKnownError

from aitne.core import units


class Strict(BaseModel):
    """Base class of models for external input: an unknown field is an error, and text is never
    converted to a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


_Origin = Literal["code", "user", "store"]
_origin: ContextVar[_Origin] = ContextVar("origin", default="code")
"""Origin of the input that is being validated. A quantity needs its unit if a user wrote it; in code
and in what the platform has stored it is a number of bytes or seconds.
"""


def validate_as_written(value: Any, handler: Callable[[Any], Any]) -> Any:
    """Validate input that a user wrote. Input that contains it may have been stored before."""
    return (
        handler(value)
        if _origin.get() == "store"
        else _validate_with_origin("user", value, handler)
    )


def validate_as_stored(value: Any, handler: Callable[[Any], Any]) -> Any:
    """Validate input that the platform has stored."""
    return _validate_with_origin("store", value, handler)


def _validate_with_origin(origin: _Origin, value: Any, handler: Callable[[Any], Any]) -> Any:
    token = _origin.set(origin)
    try:
        return handler(value)
    finally:
        _origin.reset(token)


class Written(Strict):
    """Base class of models for what users write: a quantity needs its unit, in all models within
    it.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _validate_as_written(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        written: Self = validate_as_written(value, handler)
        return written


class Frozen(BaseModel):
    """Base class of models for values that the platform itself creates: immutable, and lenient when
    an older record is read.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)


def deprecated_copy(field: str, kind: Any) -> Any:
    """Return a computed field that contains the value of ``field`` under a deprecated name.

    In a model, ``says: ClassVar = deprecated_copy("message", str)`` keeps ``says`` in responses
    after the field was renamed to ``message``; ``kind`` is the type of that field. The OpenAPI
    document marks the old name as deprecated, and the portal's types omit it. ``CHANGELOG.md``
    states the release that removes it.
    """

    def value(self: BaseModel) -> Any:
        return getattr(self, field)

    # Not ``deprecated=True``: pydantic would warn each time that the model is serialized.
    computed = computed_field(
        return_type=kind,
        description=f"Old name of `{field}`.",
        json_schema_extra={"deprecated": True},
    )
    return computed(property(value))


_LONGEST_QUANTITY = 32
MAX_MEMORY = 1 << 60
MAX_MEMORY_TEXT = "1024 PiB"
_MAX_SECONDS = 10 * 365 * 86_400
_MAX_KEEP_SECONDS = 100 * 365 * 86_400
LARGEST_UID = 2**32 - 2
"""Largest uid of Linux, on whose upper half SSSD and IPA may map users; one more means no account."""


def convert_memory(value: object) -> object:
    """Return the number of bytes for a text such as ``16G``; other values are returned unchanged,
    except that a number in what a user has written is refused like the same text.
    """
    text = _format_quantity(value)
    return value if text is None else units.parse_memory(text)


def convert_duration(value: object) -> object:
    """Return the number of seconds for a text such as ``4h``; other values are returned unchanged,
    except that a number in what a user has written is refused like the same text.
    """
    text = _format_quantity(value)
    return value if text is None else units.parse_written_duration(text)


def make_bounds_validator(
    least: int, least_text: str, most: int, most_text: str
) -> BeforeValidator:
    """Return a validator whose errors name the bounds with their units. Those of ``Field``, for the
    schema, are numbers of bytes or seconds, which users do not write.
    """

    def check(value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            if value > most:
                raise PydanticKnownError("less_than_equal", {"le": most_text})
            if value < least:
                raise PydanticKnownError("greater_than_equal", {"ge": least_text})
        return value

    return BeforeValidator(check)


def _format_quantity(value: object) -> str | None:
    """Return the text of a quantity; None if it is not written as text, and need not be."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and _origin.get() == "user":
        return _check_length(str(value))
    return _check_length(value) if isinstance(value, str) else None


_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]*")


def _no_number(value: object) -> object:
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError(
            "it is a number: write the date and the time, such as 2026-01-31T14:00:00Z"
        )
    return value


def _convert_truth_value(value: object) -> object:
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise ValueError("write true or false")
    return value


def _check_length(text: str) -> str:
    if len(text) > _LONGEST_QUANTITY:
        raise ValueError(f"it is longer than {_LONGEST_QUANTITY} characters")
    return text


def _format_scalar(value: object) -> object:
    """Return the text of a number or truth value as in YAML; other values are returned
    unchanged.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


MAX_STRING_BYTES = 120_000
"""Maximum number of bytes of an argument or environment variable; Linux starts no program with one
of 128 KiB or more (MAX_ARG_STRLEN).
"""


def check_passable(text: str) -> str:
    """Return the text unchanged if it can be passed to a program as one argument or environment
    variable.

    Raises ``ValueError`` if it cannot.
    """
    if "\0" in text:
        raise ValueError("it contains a NUL character, which no program can receive")
    if len(text.encode()) > MAX_STRING_BYTES:
        raise ValueError(
            f"it is longer than {MAX_STRING_BYTES} bytes, more than a program can receive; "
            "put it into a file"
        )
    return text


MemoryText = Annotated[
    str,
    Field(
        max_length=_LONGEST_QUANTITY, examples=["16G"], description=f"As text: {units.MEMORY_HINT}."
    ),
]
DurationText = Annotated[
    str,
    Field(
        max_length=_LONGEST_QUANTITY,
        examples=["4h"],
        description=f"As text: {units.DURATION_HINT}.",
    ),
]
MemoryBytes = Annotated[
    int,
    Field(strict=True, ge=1, le=MAX_MEMORY),
    make_bounds_validator(1, "1 byte", MAX_MEMORY, MAX_MEMORY_TEXT),
    BeforeValidator(convert_memory, json_schema_input_type=MemoryText),
]
"""Number of bytes, for which users write a text such as ``16G``."""
Seconds = Annotated[
    int,
    Field(strict=True, ge=1, le=_MAX_SECONDS),
    make_bounds_validator(1, "1 second", _MAX_SECONDS, "10 years"),
    BeforeValidator(convert_duration, json_schema_input_type=DurationText),
]
"""Number of seconds, for which users write a text such as ``4h``."""
OFF = "off"
FOREVER: Literal["forever"] = "forever"


def convert_off(value: object) -> object:
    """Return ``off`` for False, because YAML reads an unquoted ``off`` as False; other values are
    returned unchanged.
    """
    return OFF if value is False else value


def convert_keep_time(value: object) -> object:
    """Return a retention time as a number of seconds, or ``forever``; other values unchanged."""
    return value if value == FOREVER else convert_duration(value)


KeepTime = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=_MAX_KEEP_SECONDS)] | Literal["forever"],
    make_bounds_validator(1, "1 second", _MAX_KEEP_SECONDS, "100 years"),
    BeforeValidator(convert_keep_time, json_schema_input_type=int | DurationText),
]
"""Number of seconds, or ``forever``; input may also be a text such as ``90d``."""

Flag = Annotated[bool, Field(strict=True)]
"""Truth value in a request body; numbers and words are errors."""
AskedFlag = Annotated[bool, BeforeValidator(_convert_truth_value, json_schema_input_type=bool)]
"""Truth value that may also occur in a query string, where all values are text."""
USER_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}$"
PROJECT_NAME = r"^[a-z0-9_][a-z0-9_.-]{0,63}$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
NAME_RULES = {
    USER_NAME: "a user name begins with a letter, a digit or _ and consists of letters (A to Z and "
    "a to z), digits, _ . - and @, at most 128",
    PROJECT_NAME: "a project name begins with a letter, a digit or _ and consists of lower-case "
    "letters, digits, _ . and -, at most 64",
    ENV_NAME: "the name of a variable consists of letters, digits and _, does not begin with a digit "
    "and has at most 128 characters",
}
"""Description of each pattern for names, for error messages."""
UserName = Annotated[str, Field(pattern=USER_NAME)]
"""Name of a user or Unix account, which paths, URLs, Slurm and JupyterHub can all carry. Two users
never have names that differ only in capital letters.
"""
ProjectName = Annotated[str, Field(pattern=PROJECT_NAME)]
"""Name of a project, which is also that of its Slurm account; Slurm stores those in lower case."""
JobName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_passable)]
"""Name of a job: any text, including quotes, newlines and emoji, because it never becomes part of a
script.
"""
EnvName = Annotated[str, Field(pattern=ENV_NAME)]
EnvValue = Annotated[
    str,
    Field(max_length=32_768),
    BeforeValidator(_format_scalar, json_schema_input_type=str | int | float | bool),
    AfterValidator(check_passable),
]
"""Value of an environment variable; a number or truth value is converted to text, such as ``1`` or
``true``.
"""
Command = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(check_passable)]
UtcTime = Annotated[
    AwareDatetime, BeforeValidator(_no_number, json_schema_input_type=AwareDatetime)
]
"""Time with a time zone. Input must be text, because a number could mean seconds or
milliseconds.
"""
