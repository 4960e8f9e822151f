"""Conversion of errors to JSON and back, so that an error raised on one side of the broker
connection is raised on the other side too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aitne.core.errors import (
    AitneError,
    FieldProblem,
    InvalidInput,
    NotFound,
    RateLimited,
    SchedulerRejected,
    Unavailable,
)


def error_to_wire(error: AitneError) -> dict[str, Any]:
    """Return the error as a dictionary for JSON, from which ``error_from_wire`` creates an error of
    the same class.

    A class that only an adapter defines is replaced by its first base class in ``core.errors``,
    because the other side does not know it.
    """
    module = AitneError.__module__
    code = next(cls.code for cls in type(error).__mro__ if cls.__module__ == module)  # type: ignore[attr-defined]
    fields: dict[str, Any] = {"code": code, "message": error.message}
    if isinstance(error, InvalidInput):
        problems = [[p.field, p.message, p.value, p.allowed] for p in error.problems]
        fields.update(code=InvalidInput.code, problems=problems)
    elif isinstance(error, SchedulerRejected):
        fields["field"] = error.field
    elif isinstance(error, RateLimited):
        fields["retry_after_s"] = error.retry_after_s
    elif isinstance(error, NotFound):
        fields.update(kind=error.kind, name=error.name)
    return fields


def error_from_wire(fields: Mapping[str, Any]) -> AitneError:
    """Return the error that ``error_to_wire`` has converted to ``fields``; ``Unavailable`` if this
    release does not know its code.
    """
    code, message = fields.get("code"), str(fields.get("message"))
    if code == InvalidInput.code:
        return InvalidInput(
            message, [FieldProblem(*problem) for problem in fields.get("problems") or ()]
        )
    if code == SchedulerRejected.code:
        return SchedulerRejected(message, fields.get("field"))
    if code == RateLimited.code:
        return RateLimited(message, float(fields.get("retry_after_s") or 1.0))
    if code == NotFound.code:
        return NotFound(str(fields.get("kind")), fields.get("name"), message)
    error_class = _CLASSES.get(str(code))
    return Unavailable(f"{message} ({code})") if error_class is None else error_class(message)


def _list_plain_classes(root: type[AitneError]) -> dict[str, type[AitneError]]:
    """Return ``root`` and its subclasses by code, without those that need more than a message to be
    created.
    """
    classes = {}
    for below in root.__subclasses__():
        classes.update(_list_plain_classes(below))
    if root.__init__ is AitneError.__init__:
        # A subclass without a code of its own means the same as its base class to a receiver.
        classes[root.code] = root
    return classes


_CLASSES = _list_plain_classes(AitneError)
