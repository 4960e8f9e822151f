"""State files in JSON, which two releases of the platform share.

Before and after an upgrade, or a return from one, a release reads what a later one has written. A
field that it does not know is therefore ignored. An unknown value of an enumeration becomes
``unknown`` if the enumeration has that value, and otherwise the field's default. Standard library
only; models of pydantic are read by their own methods.
"""

from __future__ import annotations

import contextlib
import copy
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_UNKNOWN = "unknown"
_ABSENT = object()
_OF_ENUMERATIONS = frozenset({"enum", "literal_error"})
"""Kinds of errors with which pydantic rejects unknown values of enumerations."""


class DamagedState(ValueError):
    """A state file does not contain what the platform writes; the message says what is wrong."""


def read_state(kind: type[T], path: Path) -> T:
    """Read the record of ``kind``, a dataclass or a model, in the file ``path``.

    Raises:
        OSError: the file cannot be read.
        DamagedState: it does not contain such a record.
    """
    content = path.read_bytes()
    try:
        return parse_state(kind, content)
    except DamagedState as error:
        raise DamagedState(f"{path} is damaged: {error}") from error


def parse_state(kind: type[T], text: str | bytes) -> T:
    """Return the record of ``kind`` in a JSON text. Raises ``DamagedState``."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedState(f"it is not JSON: {error}") from error
    return parse_state_document(kind, document)


def parse_state_document(kind: type[T], document: object) -> T:
    """Return the record of ``kind`` in the values of a JSON document. Raises ``DamagedState``."""
    state: T = (
        _parse_record(kind, document, "") if is_dataclass(kind) else _parse_model(kind, document)
    )
    return state


class _Unknown(Exception):
    """An enumeration has no such value."""


def _parse_record(kind: Any, document: object, place: str) -> Any:
    if not isinstance(document, Mapping):
        raise DamagedState(f"{place or 'it'} is not an object")
    hints = get_type_hints(kind)
    values = {}
    for field in fields(kind):
        own = f"{place}.{field.name}".lstrip(".")
        required = field.default is MISSING and field.default_factory is MISSING
        if field.name not in document:
            if required:
                raise DamagedState(f"{own} is missing")
            continue
        try:
            values[field.name] = _parse_value(hints[field.name], document[field.name], own)
        except _Unknown as error:
            if required:
                raise DamagedState(f"{own} has the unknown value {error}") from error
    return kind(**values)


def _parse_value(kind: Any, value: object, place: str) -> Any:
    """Return a value of the type ``kind``. Raises ``_Unknown`` or ``DamagedState``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        others = [each for each in arguments if each is not type(None)]
        return _parse_value(others[0], value, place) if len(others) == 1 else value
    if is_dataclass(kind):
        return _parse_record(kind, value, place)
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise DamagedState(f"{place} is not a list")
        parts = (_parse_value(arguments[0], each, f"{place}[{n}]") for n, each in enumerate(value))
        return origin(parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise DamagedState(f"{place} is not an object")
        return {
            name: _parse_value(arguments[1], each, f"{place}.{name}")
            for name, each in value.items()
        }
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _parse_member(kind, value)
    allowed = (int, float) if kind is float else kind
    if isinstance(kind, type) and (
        not isinstance(value, allowed) or isinstance(value, bool) is not (kind is bool)
    ):
        raise DamagedState(f"{place} is {value!r}, not of the type {kind.__name__}")
    return value


def _parse_member(kind: type[Enum], value: object) -> Enum:
    try:
        return kind(value)
    except ValueError:
        for each in kind:
            if each.value == _UNKNOWN:
                return each
        raise _Unknown(repr(value)) from None


def _parse_model(kind: Any, document: object) -> Any:
    """Return a model of pydantic, of which the standard library knows nothing."""
    try:
        return kind.model_validate(document, extra="ignore")
    except ValueError as error:  # pydantic's ValidationError
        problem: Any = error
    known = copy.deepcopy(document)
    for substitute in (_UNKNOWN, _ABSENT):
        for place in reversed(_unknown_values(problem)):
            _replace_value(known, place, substitute)
        try:
            return kind.model_validate(known, extra="ignore")
        except ValueError as error:
            problem = error
    first = problem.errors()[0]
    where = ".".join(map(str, first["loc"])) or "it"
    raise DamagedState(f"{where}: {first['msg']}") from problem


def _unknown_values(problem: Any) -> list[tuple[int | str, ...]]:
    """Return the places of the values that no enumeration has, in the order of the document."""
    return [error["loc"] for error in problem.errors() if error["type"] in _OF_ENUMERATIONS]


def _replace_value(document: Any, place: Sequence[int | str], value: object) -> None:
    """Replace the value at a place of the document, or remove it (``_ABSENT``, or its name is that of
    an unknown member).
    """
    if place[-1] == "[key]":
        place, value = place[:-1], _ABSENT
    # A place has other parts as well if a field allows several types.
    with contextlib.suppress(LookupError, TypeError):
        for part in place[:-1]:
            document = document[part]
        if value is _ABSENT:
            del document[place[-1]]
        else:
            document[place[-1]] = value
