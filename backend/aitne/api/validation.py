"""From pydantic's errors to field problems: paths as the user wrote them, and what is allowed."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any

from fastapi import params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from aitne.core.errors import FieldProblem

_BODY, _QUERY = "body", "query"
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where a field belongs: to the body or to the query of what this function serves."""

    endpoint: object
    query: bool


def problems_of(error: RequestValidationError, endpoint: object) -> list[FieldProblem]:
    """One problem per field, in the order of the request; the members of a union are one."""
    found: dict[str, FieldProblem] = {}
    for part in error.errors():
        where, *path = part["loc"]
        body = error.body if where == _BODY else None
        names = _walk(path, body, part["type"]) if where == _BODY else path[:1]
        field = ".".join(map(str, names)) or str(where)
        problem = _problem(field, names, part, _Asked(endpoint, query=where == _QUERY))
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
    field: str, names: Sequence[Any], part: Mapping[str, Any], asked: _Asked
) -> FieldProblem:
    kind, context = str(part["type"]), part.get("ctx") or {}
    if kind == "extra_forbidden":
        known = _known(asked, names[:-1])
        close = get_close_matches(str(names[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return FieldProblem(
            field, f"is not a known field{hint}", _text(part["input"]), ", ".join(known) or None
        )
    allowed = [text.format(context[key]) for key, text in _BOUNDS.items() if key in context]
    if isinstance(part["input"], bytes):  # a body of another kind is left unread
        return FieldProblem(
            field, "was not sent as JSON: set Content-Type", None, "application/json"
        )
    message = _MESSAGES.get(kind) or str(part["msg"]).removeprefix("Value error, ")
    hidden = kind in ("missing", "json_invalid") or field in _NEVER_SHOWN
    value = None if hidden else _text(part["input"])
    return FieldProblem(field, _begun(message), value, ", ".join(allowed) or None)


def _begun(message: str) -> str:
    """As part of a sentence; a name in capitals stays one."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _known(asked: _Asked, path: Iterable[Any]) -> list[str]:
    """The fields that exist where an unknown one was found."""
    models = list(_models(asked))
    for part in path:
        models = [
            inner
            for model in models
            if isinstance(part, str) and part in model.model_fields
            for inner in _models_in(model.model_fields[part].annotation)
        ]
    return sorted({name for model in models for name in model.model_fields})


def _models(asked: _Asked) -> Iterable[type[BaseModel]]:
    if not inspect.isfunction(asked.endpoint):
        return
    hints = typing.get_type_hints(asked.endpoint, include_extras=True)
    for name, hint in hints.items():
        marks = getattr(hint, "__metadata__", ())
        provided = any(isinstance(mark, params.Depends) for mark in marks)
        in_query = any(isinstance(mark, params.Query) for mark in marks)
        if name != "return" and not provided and in_query is asked.query:
            yield from _models_in(hint.__origin__ if marks else hint)


def _models_in(hint: Any) -> Iterable[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    elif typing.get_origin(hint) in (typing.Union, UnionType):
        for inner in typing.get_args(hint):
            yield from _models_in(inner)
