"""Plain words for errors of validation: pydantic's own messages address programmers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BOUNDS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "lt": "less than {}",
    "multiple_of": "a multiple of {}",
    "pattern": "text that matches {}",
    "expected": "{}",
}
_OBJECT = "must be an object with named fields"
_LIST = "must be a list"
_TEXT = "must be text"
_WHOLE = "must be a whole number"
_NUMBER = "must be a number"
_TRUTH = "must be true or false"
_ID = "must be the full id, such as 1a2b3c4d-0000-4000-8000-000000000000"
_MOMENT = "must be a date and a time with its zone, such as 2026-01-31T14:00:00Z"
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "json_invalid": "is not JSON",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "string_type": _TEXT,
    "string_sub_type": _TEXT,
    "string_unicode": "must be text in UTF-8",
    "path_type": "must be a path",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": "is too large",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "multiple_of": "is not a multiple of the step",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "uuid_type": _ID,
    "uuid_parsing": _ID,
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
    "timezone_aware": _MOMENT,
    "date_type": "must be a date, such as 2026-01-31",
    "date_parsing": "must be a date, such as 2026-01-31",
    "date_from_datetime_parsing": "must be a date, such as 2026-01-31",
    "greater_than_equal": "is too small",
    "greater_than": "is too small",
    "less_than_equal": "is too large",
    "less_than": "is too large",
    "enum": "has no such value",
    "literal_error": "has no such value",
    "string_pattern_mismatch": "is not in the right form",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "too_short": "has too few entries",
    "too_long": "has too many entries",
}
_LENGTHS = {
    "string_too_short": ("at least {}", "min_length", "character"),
    "string_too_long": ("at most {}", "max_length", "character"),
    "too_short": ("at least {}", "min_length", "entry"),
    "too_long": ("at most {}", "max_length", "entry"),
}
_OWN = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
"""Kinds of errors whose message is the platform's own, after a prefix."""


def describe_error(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, as a part of a sentence such as ``is too large``.

    Args:
        error: one of the errors of a ``ValidationError``.
    """
    kind = str(error["type"])
    prefix = _OWN.get(kind)
    if prefix is not None:
        return str(error["msg"]).removeprefix(prefix)
    return _MESSAGES.get(kind, "is invalid")


def describe_allowed_values(error: Mapping[str, Any]) -> str | None:
    """Return what the field permits, such as ``at most 64``; None if the message says it.

    Args:
        error: one of the errors of a ``ValidationError``.
    """
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind in _LENGTHS:
        text, bound, unit = _LENGTHS[kind]
        count = context[bound]
        plural = {"entry": "entries"}.get(unit, f"{unit}s")
        return text.format(f"{count} {unit if count == 1 else plural}")
    allowed = [text.format(context[key]) for key, text in _BOUNDS.items() if key in context]
    return ", ".join(allowed) or None


def explain_error(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field and what it permits: ``is too large (at most 64)``.

    Args:
        error: one of the errors of a ``ValidationError``.
    """
    allowed = describe_allowed_values(error)
    if allowed is None:
        return describe_error(error)
    if error["type"] in ("enum", "literal_error"):
        return f"must be {allowed}"
    return f"{describe_error(error)} ({allowed})"
