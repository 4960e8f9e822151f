"""Streams of server-sent events to clients
(https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from aitne.api.metrics import ApiMetrics
from aitne.core.errors import NotAllowed, NotFound, Unavailable
from aitne.core.models.user import Actor
from aitne.services.platform.event_hub import EventHub, Subscription

HEARTBEAT_S = 15.0
RECHECK_S = 60.0
"""Seconds after which an open stream is checked again for an ended login or a changed membership.
"""

_COMMENT = b": still here\n\n"
_CONTROLS = ["hello", "reset"]
_POSITION = {
    "type": "object",
    "required": ["last_event_id"],
    "properties": {
        "last_event_id": {"type": "integer", "description": "Id of the last event so far."}
    },
}


def _make_message_schema(events: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {"properties": {"event": events, "data": content}}


MESSAGE_SCHEMA: dict[str, Any] = {
    "description": "One message of the stream. Its data is JSON.",
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "Id of the last event so far, to be sent as `Last-Event-ID`.",
        },
        "event": {"type": "string", "description": "`hello`, `reset` or the event's kind."},
        "data": {"type": "string", "description": "JSON, as the schema of the kind describes."},
    },
    "oneOf": [
        _make_message_schema({"enum": _CONTROLS}, _POSITION),
        _make_message_schema({"not": {"enum": _CONTROLS}}, {"$ref": "#/components/schemas/Event"}),
    ],
}
"""JSON schema of one message of the stream, for the OpenAPI document. OpenAPI 3.1 cannot describe a
whole stream: tools read the schema of ``text/event-stream`` as that of one message."""


async def generate_event_stream(
    events: EventHub,
    actor: Actor,
    last_event_id: int | None,
    reauthenticate: Callable[[], Awaitable[Actor]],
    metrics: ApiMetrics,
) -> AsyncGenerator[bytes, None]:
    """Yield the message ``hello``, then the events after ``last_event_id``, then new events as they
    happen, as server-sent events.

    ``reauthenticate`` authenticates the actor once more; it is called every minute, and the stream ends when
    it raises.
    """
    with events.subscribe(actor, after=last_event_id) as subscription:
        metrics.sse_clients.inc()
        try:
            yield _format_control_event("hello", subscription.start_id)
            checked = asyncio.get_running_loop().time()
            while not events.stopped:
                yield await _get_events(subscription)
                if asyncio.get_running_loop().time() - checked >= RECHECK_S:
                    checked = asyncio.get_running_loop().time()
                    try:
                        subscription.actor = await reauthenticate()
                    except NotAllowed:
                        return
                    except Unavailable:
                        continue  # no user was rejected: the check is repeated
        finally:
            metrics.sse_clients.dec()


async def stream_while_allowed(
    pieces: AsyncGenerator[bytes, None], reauthenticate: Callable[[], Awaitable[object]]
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of ``pieces`` until ``reauthenticate`` raises an error. ``reauthenticate`` is called every
    minute, even if there are no chunks."""
    clock = asyncio.get_running_loop().time
    checked = clock()
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_get_chunk(pieces))
            await asyncio.wait({coming}, timeout=max(0.0, checked + RECHECK_S - clock()))
            if clock() - checked >= RECHECK_S:
                checked = clock()
                try:
                    await reauthenticate()
                except (NotAllowed, NotFound):
                    return
                except Unavailable:
                    pass  # no user was rejected: the check is repeated
            if coming.done():
                piece, coming = coming.result(), None
                if piece is None:
                    return
                yield piece
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await pieces.aclose()


async def _get_chunk(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def _get_events(subscription: Subscription) -> bytes:
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            messages = await subscription.get()
    except TimeoutError:
        return _COMMENT
    reset = _format_control_event("reset", messages.last_id) if messages.reset else b""
    return reset + b"".join(messages.events)


def _format_control_event(kind: str, last_event_id: int) -> bytes:
    data = json.dumps({"last_event_id": last_event_id})
    return f"id: {last_event_id}\nevent: {kind}\ndata: {data}\n\n".encode()
