"""Middleware that writes the audit log: one entry for each request of an authenticated user that
may change something.

The entry is written when the response begins and before it is sent, so that it records the outcome.
A login has no authenticated user yet; its route writes its own entries.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aitne.core.models.audit import Outcome
from aitne.core.models.user import Actor
from aitne.services.audit import AuditService

_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
READS = frozenset(
    {
        "plan_job",
        "plan_ranks",
        "import_job",
        "look_up_device_login",
        "preview_invitation",
        "look_at_invitation",
        "report_activity",
    }
)
"""Operation ids of POST requests that change nothing, and therefore get no audit log entry."""
_ACTOR, _NOTES = "aitne.actor", "aitne.notes"


def set_actor(connection: HTTPConnection, actor: Actor) -> None:
    """Store ``actor`` in the request, so that the audit log records it as the one who acted."""
    connection.scope[_ACTOR] = actor


def find_actor(scope: Scope) -> Actor | None:
    """Return the authenticated actor of this request; None before authentication."""
    actor: Actor | None = scope.get(_ACTOR)
    return actor


async def get_audit_details(connection: HTTPConnection) -> dict[str, Any]:
    """Return the dictionary of additional details that this request's audit log entry will contain.
    The route adds to it, but never a secret."""
    notes: dict[str, Any] = connection.scope.setdefault(_NOTES, {})
    return notes


NotesDep = Annotated[dict[str, Any], Depends(get_audit_details)]


class AuditMiddleware:
    """ASGI middleware that writes an audit log entry for each request that may change something.
    Responses are passed on without buffering."""

    def __init__(self, app: ASGIApp, *, audit: AuditService) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and write its audit log entry when the response begins."""
        if scope["type"] != "http" or scope["method"] not in _CHANGES:
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_recorded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = Headers(raw=message.get("headers", []))
                await self._record_request(scope, message["status"], headers.get("location"))
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except Exception:
            if not begun:
                await self._record_request(scope, 500, None)
            raise

    async def _record_request(self, scope: Scope, status: int, location: str | None) -> None:
        actor = find_actor(scope)
        action = getattr(scope.get("route"), "name", None)
        if actor is None or action is None or action in READS:
            return
        client = scope.get("client")
        details = {"status": status, **scope.get(_NOTES, {})}
        if actor.token_created_by is not None:
            details["token_created_by"] = actor.token_created_by
        if actor.session is not None:
            details |= {"via": "session", "session": str(actor.session)}
        await self._audit.record(
            actor=actor.name,
            impersonator=actor.impersonator,
            action=action,
            object=_find_object_name(scope, location),
            outcome=_get_outcome(status),
            address=None if client is None else client[0],
            details=details,
        )


def _find_object_name(scope: Scope, location: str | None) -> str | None:
    """Return the name of the object that a request changed: its path parameters, or for a new
    object the end of its ``location``, which is the response's Location header. None if there is
    neither."""
    named = "/".join(str(value) for value in scope.get("path_params", {}).values())
    if named or location is None:
        return named or None
    _, below, made = location.rstrip("/").partition(f"{scope['path']}/")
    return made if below else location.rstrip("/").rpartition("/")[2]


def _get_outcome(status: int) -> Outcome:
    if status < 400:
        return Outcome.ALLOWED
    return Outcome.DENIED if status in (401, 403) else Outcome.FAILED
