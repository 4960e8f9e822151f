"""Base classes and annotated types that the models share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from aitne.core import units


class Strict(BaseModel):
    """Input from outside: an unknown field is an error, and text is never silently a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Frozen(BaseModel):
    """A value the platform made itself: immutable, and lenient when an older record is read back."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _memory(value: object) -> object:
    return units.parse_memory(value) if isinstance(value, str) else value


def _duration(value: object) -> object:
    return units.parse_duration(value) if isinstance(value, str) else value


MAX_STRING_BYTES = 120_000
"""Linux refuses to start a program with an argument or a variable of 128 KiB (MAX_ARG_STRLEN)."""


def passable(text: str) -> str:
    """The text, if a program can receive it as one argument or one variable; else ``ValueError``."""
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
    Field(max_length=32, examples=["16G"], description=f"As text: {units.MEMORY_HINT}."),
]
DurationText = Annotated[
    str, Field(max_length=32, examples=["4h"], description=f"As text: {units.DURATION_HINT}.")
]
MemoryBytes = Annotated[
    int,
    Field(strict=True, ge=1, le=1 << 60),
    BeforeValidator(_memory, json_schema_input_type=int | MemoryText),
]
"""Bytes, read from ``16G`` too."""
Seconds = Annotated[
    int,
    Field(strict=True, ge=1, le=10 * 365 * 86_400),
    BeforeValidator(_duration, json_schema_input_type=int | DurationText),
]
"""Seconds, read from ``4h`` too."""

UserName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
"""A login name: what Unix and JupyterHub both take."""
ProjectName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
JobName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(passable)]
"""Any text: quotes, newlines and emoji included. It is data, never part of a script."""
UtcTime = AwareDatetime
