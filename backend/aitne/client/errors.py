"""Errors of the client, and the conversion of problem documents (RFC 9457) into errors.

These extend the tree of ``aitne.core.errors``::

    Unavailable
    ├── NotRunning           no platform runs where one was expected; says how to start it
    └── Unreachable          the platform does not answer, or the connection broke
        └── CertificateInvalid   its TLS certificate is not trusted, expired, or for another name
    InvalidInput
    └── Ambiguous            a short name matches several jobs, the ``candidates``
    AitneError
    ├── JobEnded             the job ended before the awaited state was reached
    └── WaitTimeout          the time limit of a wait expired; the job continues
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
    """No platform runs at the expected address or data directory."""

    code = "not_running"


class Unreachable(Unavailable):
    """The platform does not answer. It may or may not have carried out the request."""

    code = "unreachable"


class CertificateInvalid(Unreachable):
    """The platform's TLS certificate is not trusted, has expired, or is for another name."""

    code = "certificate_invalid"


class Ambiguous(InvalidInput):
    """A short name, such as the beginning of an id, matches several jobs. ``candidates`` has these
    jobs."""

    code = "ambiguous"

    def __init__(self, message: str, candidates: Sequence[Job]) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class JobEnded(AitneError):
    """The job ended before it reached the awaited state. ``job`` is its last record."""

    code = "job_ended"

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job


class WaitTimeout(AitneError, TimeoutError):
    """The time limit of a wait expired. The job continues."""

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


def _map_codes(root: type[AitneError]) -> dict[str, type[AitneError]]:
    classes = {root.code: root}
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            classes.update(_map_codes(kind))
    return classes


def make_error_from_problem(status: int, headers: Mapping[str, str], body: bytes) -> AitneError:
    """Return the error that corresponds to a response with a status of 400 or above."""
    document = _parse_document(body)
    fallback = _BY_STATUS.get(status, AitneError)
    kind = _map_codes(AitneError).get(str(document.get("code")), fallback)
    message = str(
        document.get("detail") or document.get("title") or f"The platform answered {status}."
    )
    error = _make_plain_error(kind, message)
    if isinstance(error, InvalidInput):
        error.problems = tuple(_parse_problems(document))
    if isinstance(error, RateLimited):
        error.retry_after_s = _parse_seconds(headers.get("retry-after"))
    return error


_Error = TypeVar("_Error", bound=AitneError)


def _make_plain_error(kind: type[_Error], message: str) -> _Error:
    """Create an error of the class ``kind`` with the platform's message, bypassing the constructor
    of the class, which may take other arguments."""
    error = kind.__new__(kind)
    AitneError.__init__(error, message)
    return error


def _parse_document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _parse_problems(document: Mapping[str, Any]) -> list[FieldProblem]:
    listed = document.get("problems")
    return [
        FieldProblem(
            field=str(item.get("field", "")),
            message=str(item.get("message", "")),
            value=_to_text(item.get("value")),
            allowed=_to_text(item.get("allowed")),
        )
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    ]


def _to_text(value: object) -> str | None:
    return None if value is None else str(value)


def _parse_seconds(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
