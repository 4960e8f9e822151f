"""Routes of the event stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from aitne.api.dependencies import MetricsDep, PlatformDep, Reader, get_caller
from aitne.api.event_stream import MESSAGE_SCHEMA, generate_event_stream
from aitne.api.routers import V1
from aitne.api.streaming import StreamedResponse, get_open_streams
from aitne.core.models.user import Actor

router = APIRouter(prefix=V1, tags=["events"])


@router.get(
    "/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": MESSAGE_SCHEMA}}}},
)
async def stream_events(
    request: Request,
    actor: Reader,
    platform: PlatformDep,
    metrics: MetricsDep,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=20,
            description="Id of the last event received; later events are sent first.",
        ),
    ] = None,
) -> Response:
    """Stream changes of jobs and other objects that you may see, as server-sent events.

    The first message is ``hello``. ``reset`` means that events were skipped: read the objects
    again.
    """

    async def again() -> Actor:
        return (await get_caller(request, platform, metrics)).actor

    last_id = int(last_event_id) if last_event_id and last_event_id.isdecimal() else None
    return StreamedResponse(
        generate_event_stream(platform.events, actor, last_id, again, metrics),
        get_open_streams(request.app),
        actor,
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )
