"""From a problem document (RFC 9457) back to the error that the platform raised.

Beside the tree of ``aitne.core.errors``::

    Unavailable
    ├── NotRunning           no platform runs where one was expected; says how to start it
    └── Unreachable          the platform does not answer, or the connection broke
    InvalidInput
    └── Ambiguous            a short name fits several jobs; ``candidates`` are they
    AitneError
    ├── JobEnded             a session that was waited for will never be ready
    └── WaitTimeout          the time to wait is over; the job goes on
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from aitne.core import errors
from aitne.core.errors import AitneError, FieldProblem, InvalidInput, RateLimited, Unavailable

if TYPE_CHECKING:
    from aitne.client.records import Job


class NotRunning(Unavailable):
    """No platform runs where one was expected."""

    code = "not_running"


class Unreachable(Unavailable):
    """The platform does not answer. What was asked may or may not have been done."""

    code = "unreachable"


class Ambiguous(InvalidInput):
    """A short name fits several jobs."""

    code = "ambiguous"

    def __init__(self, message: str, candidates: Sequence[Job]) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class JobEnded(AitneError):
    """What was waited for can no longer happen: the job has ended."""

    code = "job_ended"

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job


class WaitTimeout(AitneError, TimeoutError):
    """The time to wait is over. The job goes on."""

    code = "wait_timeout"


_BY_STATUS: dict[int, type[AitneError]] = {
    400: errors.InvalidInput,
    401: errors.NotAuthenticated,
    403: errors.NotAllowed,
    404: errors.NotFound,
    405: errors.InvalidInput,
    409: errors.Conflict,
    412: errors.Conflict,
    413: errors.InvalidInput,
    415: errors.InvalidInput,
    422: errors.InvalidInput,
    429: errors.RateLimited,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def _tree(root: type[AitneError]) -> dict[str, type[AitneError]]:
    found = {root.code: root}
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            found.update(_tree(kind))
    return found


def from_problem(status: int, headers: Mapping[str, str], body: bytes) -> AitneError:
    """The error that a response of 400 and above stands for."""
    document = _document(body)
    fallback = _BY_STATUS.get(status, AitneError)
    kind = _tree(AitneError).get(str(document.get("code")), fallback)
    message = str(
        document.get("detail") or document.get("title") or f"The platform answered {status}."
    )
    error = _plain(kind, message)
    if isinstance(error, InvalidInput):
        error.problems = tuple(_problems(document))
    if isinstance(error, RateLimited):
        error.retry_after_s = _seconds(headers.get("retry-after"))
    return error


_Error = TypeVar("_Error", bound=AitneError)


def _plain(kind: type[_Error], message: str) -> _Error:
    """An error of ``kind`` with the platform's own sentence: some constructors write their own."""
    error = kind.__new__(kind)
    AitneError.__init__(error, message)
    return error


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _problems(document: Mapping[str, Any]) -> list[FieldProblem]:
    listed = document.get("problems")
    return [
        FieldProblem(
            field=str(item.get("field", "")),
            message=str(item.get("message", "")),
            value=_text(item.get("value")),
            allowed=_text(item.get("allowed")),
        )
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    ]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _seconds(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
