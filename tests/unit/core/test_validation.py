"""Messages for validation errors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import AfterValidator, AwareDatetime, Field, TypeAdapter, ValidationError
from pydantic_core import core_schema

from aitne.core.models.base import KeepTime, MemoryBytes, Seconds
from aitne.core.validation_messages import describe_error, explain_error


def _odd(value: int) -> int:
    if not value % 2:
        raise ValueError("must be odd")
    return value


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Annotated[int, Field(le=64)], 65, "is too large (at most 64)"),
        (Seconds, "9999d", "is too large (at most 10 years)"),
        (Seconds, "0m", "is too small (at least 1 second)"),
        (Seconds, 10 * 366 * 86_400, "is too large (at most 10 years)"),
        (KeepTime, "40000d", "is too large (at most 100 years)"),
        (MemoryBytes, "2000P", "is too large (at most 1024 PiB)"),
        (MemoryBytes, "0M", "is too small (at least 1 byte)"),
        (Annotated[str, Field(max_length=1)], "ab", "is too long (at most 1 character)"),
        (Annotated[list[int], Field(min_length=2)], [], "has too few entries (at least 2 entries)"),
        (Literal["gloo", "nccl"], "mpi", "must be 'gloo' or 'nccl'"),
        (Annotated[int, AfterValidator(_odd)], 2, "must be odd"),
        (datetime, "soon", "must be a date and a time with its zone, such as 2026-01-31T14:00:00Z"),
        (AwareDatetime, "2026-01-31T14:00:00", "must be a date and a time with its zone, such as "),
    ],
)
def test_explanation_names_problem_and_permitted_values(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    [error] = caught.value.errors()
    assert explain_error(error).startswith(words)


def test_no_message_of_the_library_is_shown() -> None:
    raw = "Input should be something else"
    kinds = {*get_args(core_schema.ErrorType)} - {"value_error", "assertion_error"}
    assert "timezone_aware" in kinds
    assert [kind for kind in kinds if raw in describe_error({"type": kind, "msg": raw})] == []
