"""RFC 9457 problems: every answer that is not a success has this one shape.

One table maps the domain's errors, which know no HTTP, to status codes.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import Field
from starlette.exceptions import HTTPException

from aitne.api.validation import problems_of
from aitne.core.errors import (
    AitneError,
    ChangedMeanwhile,
    Conflict,
    FieldProblem,
    InvalidInput,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotSupported,
    RateLimited,
    SchedulerRejected,
    Unavailable,
)
from aitne.core.models.base import Frozen

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
CATCH_ALL = "/{path:path}"
"""The portal's route, which stands behind all others."""
_MAX_PROBLEMS = 50
_LONGEST_VALUE = 500

_STATUS: Mapping[type[AitneError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    NotAllowed: 403,
    NotAuthenticated: 401,
    Conflict: 409,
    ChangedMeanwhile: 412,
    RateLimited: 429,
    Unavailable: 503,
    SchedulerRejected: 422,
    NotSupported: 501,
}
_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    414: "too_long",
    500: "internal",
}


class FieldProblemView(Frozen):
    """One field that is wrong, as the user wrote it, and what would have been accepted."""

    field: str
    """Where, as a dotted path: ``resources.gpu``."""
    message: str
    value: str | None
    """What was given, as text; null: nothing."""
    allowed: str | None
    """What would have been accepted; null: see the message."""


class Problem(Frozen):
    """What went wrong (RFC 9457): ``detail`` says why and what to do, ``code`` is for programs."""

    type: str = Field(examples=["urn:aitne:problem:invalid_input"])
    """The kind of problem, as a URI."""
    title: str
    """What the status means."""
    status: int
    """The HTTP status."""
    detail: str
    """Why, and what to do."""
    instance: str
    """The path that was asked for."""
    code: str
    """The kind of problem for programs: a word that stays."""
    problems: tuple[FieldProblemView, ...] = ()
    """Each field that is wrong."""


def status_of(error: AitneError) -> int:
    """The status of the nearest class in the table; 500 for what nobody can do anything about."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    instance: str,
    problems: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Write one problem."""
    problem = Problem(
        type=f"urn:aitne:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_printable(detail),
        instance=_printable(instance),
        code=code,
        problems=tuple(FieldProblemView(**_shown(each)) for each in problems[:_MAX_PROBLEMS]),
    )
    return Response(
        problem.model_dump_json(), status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def internal_error(instance: str, error: BaseException) -> Response:
    """A bug: the log has the trace, the client its number and nothing else."""
    number = secrets.token_hex(6)
    log.error("error %s at %s", number, _printable(instance), exc_info=error)
    return problem_response(
        500,
        "internal",
        f"Something went wrong inside the platform. Its log has the details under {number}.",
        instance=instance,
    )


def install(app: FastAPI) -> None:
    """Have the application answer every error with a problem."""
    app.add_exception_handler(AitneError, _domain)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)


async def _domain(request: Request, error: Exception) -> Response:
    assert isinstance(error, AitneError)  # noqa: S101 - registered for this class
    status = status_of(error)
    instance = request.url.path
    if status == 500:
        return internal_error(instance, error)
    headers = {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    elif status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
        log.warning("%s: %s", error.code, error.message)
    elif status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="aitne"'
    problems = error.problems if isinstance(error, InvalidInput) else ()
    return problem_response(
        status, error.code, error.message, instance=instance, problems=problems, headers=headers
    )


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    problems, left_out = problems_of(error, request.scope.get("endpoint"))
    detail = "; ".join(f"{each.field}: {each.message}" for each in problems[:5])
    if (more := len(problems[5:]) + left_out) > 0:
        detail += f"; and {more} more"
    return problem_response(
        422, "invalid_input", detail, instance=request.url.path, problems=problems
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    status, headers = error.status_code, dict(error.headers or {})
    if status in (404, 405) and _is_portal(request.scope.get("route")):
        # Only the portal's pages would have been there; an API path may take other methods.
        methods = _methods_at(request)
        status = 405 if methods else 404
    elif status == 405:
        methods = _methods_at(request)
    else:
        methods = set()
    if methods:
        headers["Allow"] = ", ".join(sorted(methods))
    code = _CODES.get(status, "http")
    detail = {
        400: "The body is not JSON that can be read.",
        404: f"There is nothing at {request.url.path}. /api/v1/openapi.json lists what there is.",
        405: f"{request.url.path} does not take {request.method}.",
    }.get(status, str(error.detail))
    return problem_response(status, code, detail, instance=request.url.path, headers=headers)


def _is_portal(route: object) -> bool:
    return getattr(route, "path", None) == CATCH_ALL


def _methods_at(request: Request) -> set[str]:
    """All that some route takes at this path: a route for each method, as FastAPI has them."""
    found: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        if not _is_portal(route) and route.path_regex.match(request.scope["path"]):
            found |= getattr(route, "methods", None) or set()
    return found


def _shown(problem: FieldProblem) -> dict[str, str | None]:
    shown = {
        key: None if text is None else _printable(text) for key, text in asdict(problem).items()
    }
    value = shown["value"]
    if value is not None and len(value) > _LONGEST_VALUE:
        shown["value"] = f"{value[:_LONGEST_VALUE]}…"
    return shown


def _printable(text: str) -> str:
    """The text with lone surrogates, which no encoding takes, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
