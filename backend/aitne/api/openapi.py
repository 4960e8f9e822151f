"""The OpenAPI document. ``python -m aitne.api.openapi`` prints it; no database is needed.

The portal's client and the SDK are generated from it, and a test compares it with the stored one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from aitne.api.body_examples import BODY_EXAMPLES
from aitne.api.edge_middleware import MAX_ANONYMOUS_BODY_BYTES, MAX_BODY_BYTES, MAX_QUERY_BYTES
from aitne.api.field_descriptions import add_descriptions
from aitne.api.problems import MEDIA_TYPE, Problem
from aitne.api.routes import bare_app
from aitne.core.dataset_manifest import MOST_BYTES

_DESCRIPTION = """\
Everything the portal does, it does through this API.

**Authentication.** `Authorization: Bearer <personal access token>`, or the portal's login cookie; \
with the cookie, requests that change something also need `X-CSRF-Token` (from `/me`) and must come \
from the portal's own origin.

**Errors** are RFC 9457 problems (`application/problem+json`): `code` is for programs, `detail` for \
people, `problems` names each wrong field with its value and what is allowed.

**Lists** come in pages: pass `next_cursor` of one page as `cursor` for the next.
"""
_TAGS = {
    "auth": "Logging in and out.",
    "account": "Your own account: sign-ins, password, second factor.",
    "tokens": "Personal access tokens.",
    "secrets": "Values that your jobs get as environment variables.",
    "users": "Accounts.",
    "projects": "Projects.",
    "jobs": "Batch jobs, array jobs and sessions.",
    "sessions": "Interactive jobs with an app.",
    "files": "Files of jobs.",
    "images": "Container images of jobs and sessions.",
    "datasets": "Versioned data that jobs read.",
    "templates": "The entries of the launch form.",
    "cluster": "Nodes, partitions and capacity.",
    "events": "Stream of changes.",
    "announcements": "Messages from administrators to users.",
    "maintenance": "Periods in which no new jobs start.",
    "admin": "For administrators: the audit log, health, settings.",
}
_NO_LOGIN = frozenset(
    {
        "list_login_sources",
        "preview_invitation",
        "begin_device_login",
        "redeem_device_login",
        "look_at_invitation",
        "login",
        "finish_login",
        "start_login",
        "end_login",
        "use_login_link",
        "reset_password",
        "logout",
    }
)
_BY_ALERTMANAGER = frozenset({"receive_alerts"})
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "schema": {"type": "integer"},
    }
}
_AUTHENTICATE = {
    "WWW-Authenticate": {
        "description": "The scheme of the credential.",
        "schema": {"type": "string"},
    }
}
_ANSWERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "401": ("NotAuthenticated", "The credential is missing, wrong or expired.", _AUTHENTICATE),
    "403": ("NotAllowed", "The caller may not do this.", {}),
    "404": ("NotFound", "There is no such object that the caller may see.", {}),
    "412": ("ChangedMeanwhile", "The object has another ETag than `If-Match`.", {}),
    "413": (
        "TooLarge",
        f"The body is larger than {MAX_BODY_BYTES >> 20} MiB; without a login, than "
        f"{MAX_ANONYMOUS_BODY_BYTES >> 10} KiB; of a manifest, than {MOST_BYTES >> 30} GiB.",
        {},
    ),
    "414": ("TooLong", f"The query is longer than {MAX_QUERY_BYTES >> 10} KiB.", {}),
    "422": ("InvalidInput", "A field is invalid; `problems` names each.", {}),
    "429": ("RateLimited", "Too many requests.", _RETRY_AFTER),
    "503": ("Unavailable", "A part of the platform does not answer.", _RETRY_AFTER),
}
"""Problem responses that many operations share, by status: name, description and headers. The
response ``default`` describes every other error."""
_WRITES = frozenset({"post", "put", "patch", "delete"})


def make_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application's routes."""
    spec = get_openapi(
        title="Aitne",
        version="1",
        summary="A multi-user, interactive machine-learning cluster platform",
        description=_DESCRIPTION,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        separate_input_output_schemas=True,
    )
    components = spec["components"]
    schemas = components["schemas"]
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs") | {"Problem": problem}
    components["responses"] = {
        name: {"description": text, **_problem_content(headers)}
        for name, text, headers in _ANSWERS.values()
    }
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A personal access token, `aitne_pat_…`.",
        },
        "alertmanager": {
            "type": "http",
            "scheme": "bearer",
            "description": "The content of `secrets/alerts_token` in the data directory.",
        },
        "login": {
            "type": "apiKey",
            "in": "cookie",
            "name": "aitne_<platform>",
            "description": "The portal's login.",
        },
    }
    for path in spec["paths"].values():
        for method, operation in path.items():
            _complete_operation(method, operation)
    add_descriptions(schemas)
    components["schemas"] = {name: _simplify_schema(schemas[name]) for name in sorted(schemas)}
    return spec


def _simplify_schema(schema: Any) -> Any:
    """Return a JSON schema without generated titles and in the forms that client generators
    support."""
    if isinstance(schema, list):
        return [_simplify_schema(item) for item in schema]
    if isinstance(schema, float) and schema.is_integer():
        return int(schema)
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue  # generated by pydantic from the name
        if key == "patternProperties":
            # Client generators support only this kind of map.
            ((pattern, inner),) = value.items()
            plain["propertyNames"] = {"pattern": pattern}
            plain["additionalProperties"] = _simplify_schema(inner)
        elif key == "properties":
            plain[key] = {name: _simplify_schema(inner) for name, inner in value.items()}
        else:
            plain[key] = _simplify_schema(value)
    return plain


def _first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, without its full stop."""
    return re.split(r"[.;:](?:\s|$)", " ".join(text.split()), maxsplit=1)[0]


def _complete_operation(method: str, operation: dict[str, Any]) -> None:
    """Add the security requirements, the summary and the problem responses to an operation."""
    name = operation["operationId"]
    operation["security"] = [] if name in _NO_LOGIN else [{"token": []}, {"login": []}]
    if name in _BY_ALERTMANAGER:
        operation["security"] = [{"alertmanager": []}]
    for parameter in operation.get("parameters", []):
        parameter["schema"] = _simplify_schema(parameter["schema"])
        parameter["schema"].pop("description", None)
    operation["summary"] = _first_sentence(operation["description"])
    if name in BODY_EXAMPLES:
        for content in operation["requestBody"]["content"].values():
            content["example"] = BODY_EXAMPLES[name]
    responses = operation["responses"]
    responses.pop("422", None)
    for status in _list_error_statuses(method, operation):
        responses[status] = {"$ref": f"#/components/responses/{_ANSWERS[status][0]}"}
    responses["default"] = {"description": "A problem (RFC 9457).", **_problem_content({})}
    if method in _WRITES and name not in _NO_LOGIN | _BY_ALERTMANAGER:
        operation.setdefault("parameters", []).append(
            {
                "name": "X-CSRF-Token",
                "in": "header",
                "required": False,
                "description": "Required with the login cookie, not with a token.",
                "schema": {"type": "string"},
            }
        )


def _problem_content(headers: dict[str, Any]) -> dict[str, Any]:
    content = {"content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
    return {"headers": headers, **content} if headers else content


def _list_error_statuses(method: str, operation: dict[str, Any]) -> Iterator[str]:
    """Yield those statuses of ``_ANSWERS`` with which the operation can respond."""
    parameters = operation.get("parameters", ())
    places = {parameter["in"] for parameter in parameters}
    if operation["security"]:
        yield from ("401", "403")
    if "path" in places:
        yield "404"
    if method in _WRITES and any(each["name"] == "If-Match" for each in parameters):
        yield "412"
    if "requestBody" in operation:
        yield "413"
    if "query" in places:
        yield "414"
    if places or "requestBody" in operation:
        yield "422"
    yield from ("429", "503")


def render_document(app: FastAPI) -> str:
    """Return the document as it is stored: indented by two spaces, with a newline at its end."""
    return json.dumps(make_document(app), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Print the OpenAPI document to the standard output."""
    sys.stdout.write(render_document(bare_app()))


if __name__ == "__main__":
    main()
