"""From pydantic's errors to field problems: paths as the user wrote them, and what is allowed."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from aitne.core.errors import FieldProblem

_BODY = "body"
_BOUNDS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "lt": "less than {}",
    "min_length": "at least {} long",
    "max_length": "at most {} long",
    "pattern": "text that matches {}",
    "expected": "{}",
}
_NEVER_SHOWN = frozenset({"password", "current_password", "token"})
# pydantic words these for programmers.
_MESSAGES = {
    "missing": "is needed and was not given",
    "json_invalid": "is not JSON",
    "model_attributes_type": "must be an object with named fields",
    "dict_type": "must be an object with named fields",
}


def problems_of(error: RequestValidationError, endpoint: object) -> list[FieldProblem]:
    """One problem per field, in the order of the request; the members of a union are one."""
    found: dict[str, FieldProblem] = {}
    for part in error.errors():
        where, *path = part["loc"]
        body = error.body if where == _BODY else None
        names = _walk(path, body, part["type"]) if where == _BODY else path[:1]
        field = ".".join(map(str, names)) or str(where)
        problem = _problem(field, names, part, endpoint)
        earlier = found.get(field)
        if earlier is not None and earlier.message != problem.message:
            problem = FieldProblem(
                field,
                f"{earlier.message}; or {problem.message}",
                earlier.value,
                earlier.allowed or problem.allowed,
            )
        found[field] = problem
    return list(found.values())


def _walk(path: Sequence[Any], body: Any, kind: str) -> list[Any]:
    """The part of pydantic's path that exists in what was sent: union tags are left out."""
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


def _problem(
    field: str, names: Sequence[Any], part: Mapping[str, Any], endpoint: object
) -> FieldProblem:
    kind, context = str(part["type"]), part.get("ctx") or {}
    if kind == "extra_forbidden":
        known = _known(endpoint, names[:-1])
        close = get_close_matches(str(names[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return FieldProblem(
            field, f"is not a known field{hint}", _text(part["input"]), ", ".join(known) or None
        )
    allowed = [text.format(context[key]) for key, text in _BOUNDS.items() if key in context]
    message = _MESSAGES.get(kind) or str(part["msg"]).removeprefix("Value error, ")
    hidden = kind in ("missing", "json_invalid") or field in _NEVER_SHOWN
    value = None if hidden else _text(part["input"])
    return FieldProblem(field, message[:1].lower() + message[1:], value, ", ".join(allowed) or None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _known(endpoint: object, path: Iterable[Any]) -> list[str]:
    """The fields that exist where an unknown one was found."""
    models = list(_models(endpoint))
    for part in path:
        models = [
            inner
            for model in models
            if isinstance(part, str) and part in model.model_fields
            for inner in _models_in(model.model_fields[part].annotation)
        ]
    return sorted({name for model in models for name in model.model_fields})


def _models(endpoint: object) -> Iterable[type[BaseModel]]:
    if inspect.isfunction(endpoint):
        for hint in typing.get_type_hints(endpoint).values():
            yield from _models_in(hint)


def _models_in(hint: Any) -> Iterable[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    elif typing.get_origin(hint) in (typing.Union, UnionType):
        for inner in typing.get_args(hint):
            yield from _models_in(inner)
