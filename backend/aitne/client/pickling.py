"""Pickling of functions and values by value, with errors that name what cannot be pickled.

This file travels with a submitted function and also runs in its job, beside the function's runner,
so it imports nothing of ``aitne``.
"""

from __future__ import annotations

import functools
import pickle
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_TRIES = 2_000
"""Maximum number of parts of a value that are pickled one by one to find the one that fails."""
_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type)


class NotPicklableError(TypeError):
    """A part of a value cannot be pickled. ``path`` is an expression for it, such as
    ``args[0]['loader'].lock``, and ``reason`` says why."""

    def __init__(self, path: str, part: object, reason: str) -> None:
        kind = type(part)
        super().__init__(f"{path} ({kind.__module__}.{kind.__qualname__}): {reason}")
        self.path = path
        self.reason = reason


def dumps(value: object, path: str) -> bytes:
    """Return a value as a pickle; functions and classes that cannot be imported are included.

    ``path`` is an expression for the value in error messages. Raises ``NotPicklableError``, and
    ``ModuleNotFoundError`` if cloudpickle is not installed.
    """
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        part_path, part, reason = _find_failing_part(value, path, error)
        raise NotPicklableError(part_path, part, str(reason)) from error
    return data


def _find_failing_part(value: object, path: str, error: Exception) -> tuple[str, object, Exception]:
    """Return the smallest part of ``value`` that fails, with its path and error."""
    seen: set[int] = set()
    tries = MOST_TRIES
    while id(value) not in seen:
        seen.add(id(value))
        for part_path, part in _list_parts(value, path):
            tries -= 1
            if tries < 0:
                return path, value, error
            failure = None if id(part) in seen else _get_pickle_error(part)
            if failure is not None:
                value, path, error = part, part_path, failure
                break
    return path, value, error


def _get_pickle_error(value: object) -> Exception | None:
    import cloudpickle

    if isinstance(value, _ATOMS) and not isinstance(value, type):
        return None
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
        return error
    return None


def _list_parts(value: Any, path: str) -> Iterator[tuple[str, object]]:
    """Yield the parts that pickle stores for a value, each with an expression for it."""
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield f"{path}[{_format_key(key)}]", item
        yield from ((f"a key of {path}", key) for key in list(value))
    elif isinstance(value, list | tuple):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
        yield from _list_attributes(value, path)
    elif isinstance(value, set | frozenset):
        yield from ((f"an element of {path}", item) for item in value)
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func
        yield f"{path}.args", value.args
        yield f"{path}.keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
        yield f"{path}.__func__", value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _list_variables(value, path)
    elif isinstance(value, type):
        for name, item in list(vars(value).items()):
            if not name.startswith("__"):
                yield f"{path}.{name}", item
    else:
        yield from _list_attributes(value, path)


def _list_attributes(value: Any, path: str) -> Iterator[tuple[str, object]]:
    try:
        # What pickle stores, which leaves out what ``__getstate__`` leaves out.
        state = value.__reduce_ex__(4)[2]
    except Exception:  # noqa: BLE001 - a lock, for example, refuses; its attributes are no parts
        state = getattr(value, "__dict__", None)
    states = state if isinstance(state, tuple) else (state,)
    for attributes in states:
        if isinstance(attributes, dict):
            for name, item in list(attributes.items()):
                yield f"{path}.{name}", item


def _list_variables(function: types.FunctionType, path: str) -> Iterator[tuple[str, object]]:
    """Yield the variables outside of a function that its code uses, and its defaults."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"{name} (a variable that {path} uses)", cell.cell_contents
        except ValueError:
            continue  # it has no value yet
    for name in sorted(_collect_names(code)):
        if name in function.__globals__:
            yield f"{name} (a variable that {path} uses)", function.__globals__[name]
    for index, item in enumerate(function.__defaults__ or ()):
        yield f"{path}.__defaults__[{index}]", item
    for name, item in (function.__kwdefaults__ or {}).items():
        yield f"{path}.__kwdefaults__[{name!r}]", item


def _collect_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _collect_names(constant)
    return names


def _format_key(key: object) -> str:
    text = repr(key) if isinstance(key, _ATOMS) else f"<{type(key).__qualname__}>"
    return text if len(text) <= 80 else f"{text[:79]}…"


def loads(data: bytes) -> Any:
    """Load a pickle. This runs code that the pickle names: load only what the same user wrote."""
    return pickle.loads(data)  # noqa: S301 - see above
