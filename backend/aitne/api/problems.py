"""RFC 9457 problem documents, the format of all error responses, and the mapping of the platform's
errors to HTTP status codes."""

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

from aitne.api.validation_errors import to_invalid_input
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
"""Path of the portal's catch-all route, which is registered after all others."""
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
    408: "too_slow",
    413: "too_large",
    414: "too_long",
    429: "rate_limited",
    500: "internal",
}


class FieldProblemView(Frozen):
    """Invalid field of a request, with the value that was sent and the allowed values."""

    field: str
    """Dotted path of the field: ``resources.gpu``."""
    message: str
    value: str | None
    """Value that was sent, as text; null if none was sent."""
    allowed: str | None
    """Allowed values; null if the message describes them."""


class Problem(Frozen):
    """Description of an error (RFC 9457). ``detail`` has the reason and the remedy for users,
    ``code`` the kind of error for programs."""

    type: str = Field(examples=["urn:aitne:problem:invalid_input"])
    """The kind of problem, as a URI."""
    title: str
    """Meaning of the HTTP status."""
    status: int
    """The HTTP status."""
    detail: str
    """Reason of the error and how to resolve it."""
    instance: str
    """Path of the request."""
    code: str
    """Kind of the error for programs; it does not change between versions."""
    problems: tuple[FieldProblemView, ...] = ()
    """Invalid fields of the request; empty for other errors."""


def get_status(error: AitneError) -> int:
    """Return the HTTP status for an error: the status in ``_STATUS`` of its class or, if its class
    is not listed, of the nearest base class; 500 for errors that users cannot resolve.
    """
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
    """Return an HTTP response with a problem document. ``instance`` is the path of the request, and
    ``problems`` are its invalid fields."""
    problem = _make_problem_document(status, code, detail, instance, problems)
    return Response(
        problem.model_dump_json(), status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def make_problem(error: AitneError, instance: str) -> Problem:
    """Return the problem document of an error that concerns one part of a request, such as one job
    file of several; ``instance`` identifies the part."""
    problems = error.problems if isinstance(error, InvalidInput) else ()
    return _make_problem_document(get_status(error), error.code, error.message, instance, problems)


def _make_problem_document(
    status: int, code: str, detail: str, instance: str, problems: Sequence[FieldProblem]
) -> Problem:
    return Problem(
        type=f"urn:aitne:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_escape_surrogates(detail),
        instance=_escape_surrogates(instance),
        code=code,
        problems=tuple(
            FieldProblemView(**_format_field_problem(field_problem))
            for field_problem in problems[:_MAX_PROBLEMS]
        ),
    )


def make_internal_error_response(instance: str, error: BaseException) -> Response:
    """Return the response to an unexpected exception. The exception is logged under a random
    number, and the response contains only that number."""
    number = secrets.token_hex(6)
    log.error("error %s at %s", number, _escape_surrogates(instance), exc_info=error)
    return problem_response(
        500,
        "internal",
        f"An internal error occurred. The platform's log has the details under {number}.",
        instance=instance,
    )


def install_handlers(app: FastAPI) -> None:
    """Register exception handlers, so that the application answers every error with a problem
    document."""
    app.add_exception_handler(AitneError, _handle_domain_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)


async def _handle_domain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AitneError)  # noqa: S101 - registered for this class
    status = get_status(error)
    instance = request.url.path
    if status == 500:
        return make_internal_error_response(instance, error)
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


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return await _handle_domain_error(
        request, to_invalid_input(error, request.scope.get("endpoint"))
    )


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    status, headers = error.status_code, dict(error.headers or {})
    if status in (404, 405) and _is_portal_route(request.scope.get("route")):
        # Only the portal's catch-all route matched; an API path may accept other methods.
        methods = _find_allowed_methods(request)
        status = 405 if methods else 404
    elif status == 405:
        methods = _find_allowed_methods(request)
    else:
        methods = set()
    if methods:
        headers["Allow"] = ", ".join(sorted(methods))
    code = _CODES.get(status, "http")
    detail = {
        400: "The body is not valid JSON.",
        404: f"There is nothing at {request.url.path}. /api/v1/openapi.json lists all routes.",
        405: f"{request.url.path} does not accept {request.method}.",
    }.get(status, str(error.detail))
    return problem_response(status, code, detail, instance=request.url.path, headers=headers)


def _is_portal_route(route: object) -> bool:
    return getattr(route, "path", None) == CATCH_ALL


def _find_allowed_methods(request: Request) -> set[str]:
    """Return the HTTP methods that the routes with this path accept; FastAPI has a separate route
    for each method."""
    methods: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        if not _is_portal_route(route) and route.path_regex.match(request.scope["path"]):
            methods |= getattr(route, "methods", None) or set()
    return methods


def _format_field_problem(problem: FieldProblem) -> dict[str, str | None]:
    shown = {
        key: None if text is None else _escape_surrogates(text)
        for key, text in asdict(problem).items()
    }
    value = shown["value"]
    if value is not None and len(value) > _LONGEST_VALUE:
        shown["value"] = f"{value[:_LONGEST_VALUE]}…"
    return shown


def _escape_surrogates(text: str) -> str:
    """Return the text with unpaired surrogates, which cannot be encoded as UTF-8, escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
