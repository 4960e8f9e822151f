"""Conversion of pydantic's validation errors into field problems, with paths as in the request and
the allowed values."""

from __future__ import annotations

import inspect
import typing
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Any, TypeVar

from fastapi import params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.float_encoding import decode_floats
from aitne.core.jobs.foreign_field_names import find_job_file_field
from aitne.core.models.base import NAME_RULES
from aitne.core.validation_messages import describe_allowed_values, describe_error

M = TypeVar("M", bound=BaseModel)
MAX_ERRORS = 50
"""Maximum number of errors of one request that are reported; further ones are only counted."""
_MAX_SUGGESTIONS = 5
_MAX_SUGGESTION_CHARACTERS = 64
_MAX_EXAMPLE_CHARACTERS = 60
_BODY, _QUERY = "body", "query"
_NEVER_SHOWN = frozenset({"password", "current_password", "token"})


async def refuse_repeated_parameters(connection: HTTPConnection) -> None:
    """Reject a request that repeats a query parameter which takes one value. Raises
    ``InvalidInput``."""
    sent = Counter(name for name, _ in connection.query_params.multi_items())
    for name in [name for name, count in sent.items() if count > 1]:
        models = _list_request_models(connection.scope.get("endpoint"), query=True)
        fields = [model.model_fields[name] for model in models if name in model.model_fields]
        if not any(typing.get_origin(field.annotation) in (list, tuple) for field in fields):
            raise InvalidInput.field(name, "is sent more than once and takes one value")


def to_invalid_input(error: RequestValidationError, endpoint: object) -> InvalidInput:
    """Convert a validation error into an ``InvalidInput`` that names the invalid fields.
    ``endpoint`` is the function that serves the route."""
    problems, left_out = list_problems(error, endpoint)
    detail = "; ".join(f"{problem.field}: {problem.message}" for problem in problems[:5])
    if (more := len(problems[5:]) + left_out) > 0:
        detail += f"; and {more} more"
    return InvalidInput(detail, problems)


def validate_part(model: type[M], value: Any, endpoint: object) -> M | InvalidInput:
    """Validate a part of a request as ``model`` and return it. If it is invalid, return (not raise)
    the error that ``endpoint`` would give for a request with this part as its body."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = [{**part, "loc": (_BODY, *part["loc"])} for part in error.errors()]
        return to_invalid_input(RequestValidationError(errors, body=value), endpoint)


def list_problems(
    error: RequestValidationError, endpoint: object
) -> tuple[list[FieldProblem], int]:
    """Return one problem for each invalid field, in the order of the request, and the number of
    errors that were left out.

    Errors for several members of a union are merged into one problem. At most ``MAX_ERRORS`` errors
    are examined, because a client determines their number.
    """
    problems: dict[str, FieldProblem] = {}
    errors = error.errors()
    suggestions = 0
    for part in errors[:MAX_ERRORS]:
        location, *path = part["loc"]
        body = error.body if location == _BODY else None
        names = _trim_path(path, body, part["type"]) if location == _BODY else path[:1]
        field = ".".join(map(str, names)) or str(location)
        if part["type"] == "extra_forbidden":
            known_names = _known_fields(endpoint, names[:-1], query=location == _QUERY)
            suggestion = None
            if suggestions < _MAX_SUGGESTIONS:
                suggestion = _suggest_name(str(names[-1]), known_names)
                suggestions += 1
            problem = _make_unknown_field_problem(field, part["input"], known_names, suggestion)
        else:
            problem = _make_problem(field, part)
        earlier = problems.get(field)
        if earlier is not None and earlier.message != problem.message:
            problem = FieldProblem(
                field,
                f"{earlier.message}; or {problem.message}",
                earlier.value,
                earlier.allowed or problem.allowed,
            )
        problems[field] = problem
    return list(problems.values()), max(0, len(errors) - MAX_ERRORS)


def _trim_path(path: Sequence[Any], body: Any, kind: str) -> list[Any]:
    """Return pydantic's error path without the parts that are not in the request, such as union
    tags. ``kind`` is pydantic's error type."""
    if kind == "json_invalid":
        return []
    names: list[Any] = []
    for index, part in enumerate(path):
        inside = (isinstance(body, Mapping) and part in body) or (
            isinstance(body, list) and isinstance(part, int) and part < len(body)
        )
        if inside:
            names.append(part)
            body = body[part]
        elif kind == "missing" and index == len(path) - 1:
            names.append(part)
    return names


def _suggest_name(name: str, known_names: Sequence[str]) -> str | None:
    if len(name) > _MAX_SUGGESTION_CHARACTERS:
        return None
    field = find_job_file_field(name)
    if field is not None and field.partition(".")[0] in known_names:
        return field
    return next(iter(get_close_matches(name, known_names, n=1)), None)


def _make_unknown_field_problem(
    field: str, value: Any, known_names: Sequence[str], suggestion: str | None
) -> FieldProblem:
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    return FieldProblem(
        field, f"is not a known field{hint}", _format_value(value), ", ".join(known_names) or None
    )


def _make_problem(field: str, part: Mapping[str, Any]) -> FieldProblem:
    kind = str(part["type"])
    rule = NAME_RULES.get(str((part.get("ctx") or {}).get("pattern")))
    if isinstance(part["input"], bytes):  # a body of another media type is not parsed
        return FieldProblem(
            field, "was not sent as JSON: set Content-Type", None, "application/json"
        )
    message, allowed = (
        (describe_error(part), describe_allowed_values(part)) if rule is None else (rule, None)
    )
    if kind in ("list_type", "tuple_type") and isinstance(part["input"], str | int | float):
        message += f": write `- {str(part['input'])[:_MAX_EXAMPLE_CHARACTERS]}`"
    hidden = kind in ("missing", "json_invalid") or field in _NEVER_SHOWN
    value = None if hidden else _format_value(part["input"])
    return FieldProblem(field, _lower_first_letter(message), value, allowed)


def _lower_first_letter(message: str) -> str:
    """Return a message for the middle of a sentence: in lower case unless it begins with an
    acronym."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else repr(decode_floats(value))


def _known_fields(endpoint: object, path: Iterable[Any], *, query: bool) -> list[str]:
    """Return the field names that are allowed at ``path``, where a request has an unknown field."""
    models: Iterable[type[BaseModel]] = _list_request_models(endpoint, query=query)
    for part in path:
        models = [
            inner
            for model in models
            if isinstance(part, str) and part in model.model_fields
            for inner in _models_in(model.model_fields[part].annotation)
        ]
    return sorted({name for model in models for name in model.model_fields})


@cache
def _list_request_models(endpoint: object, *, query: bool) -> tuple[type[BaseModel], ...]:
    """Return the pydantic models of an endpoint's request body; with ``query``, the models of its
    query parameters.
    """
    if not inspect.isfunction(endpoint):
        return ()
    models: list[type[BaseModel]] = []
    hints = typing.get_type_hints(endpoint, include_extras=True)
    for name, hint in hints.items():
        marks = getattr(hint, "__metadata__", ())
        provided = any(isinstance(mark, params.Depends) for mark in marks)
        in_query = any(isinstance(mark, params.Query) for mark in marks)
        if name != "return" and not provided and in_query is query:
            models += _models_in(hint.__origin__ if marks else hint)
    return tuple(models)


def _models_in(hint: Any) -> Iterable[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    elif typing.get_origin(hint) in (typing.Union, UnionType):
        for inner in typing.get_args(hint):
            yield from _models_in(inner)
