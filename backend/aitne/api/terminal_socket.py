"""WebSocket that connects a browser or client with a terminal in a running job.

Cookies are not used: a page of another origin could open a WebSocket with them. The first message
has a ticket that only ``POST /jobs/{id}/terminal`` issues, after checking the permissions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import WebSocket
from pydantic import Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from aitne.api.problems import get_status
from aitne.api.streaming import get_open_streams
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.errors import AitneError, InvalidInput
from aitne.core.models.base import Strict
from aitne.core.sessions.attach_protocol import Size, Start
from aitne.core.validation_messages import explain_error
from aitne.services.sessions.terminal import WINDOW_BYTES, InputAcknowledged, Terminal, TerminalExit

log = logging.getLogger(__name__)

MOST_WAITING, MAX_PER_ADDRESS = 512, 32
"""Maximum number of WebSockets that have not sent a ticket yet: in total, and from one address.
They need no login."""
_FIRST_WITHIN_S = 15.0
_LONGEST_TEXT = 1 << 20
FAILED, REFUSED, GOING_AWAY = 1011, 4000, 1001
"""Close codes of the WebSocket: an internal error, a rejected request, a stopping server. 1000
means that the program has ended."""


class _Open(Strict):
    type: Literal["open"]
    ticket: str = Field(max_length=200)
    start: Start


class _Resume(Strict):
    type: Literal["resume"]
    ticket: str = Field(max_length=200)
    terminal: str = Field(max_length=200)
    received: int = Field(ge=0)


class _Resize(Size):
    type: Literal["resize"]


class _Ack(Strict):
    type: Literal["ack"]
    bytes: int = Field(ge=0)


class _Eof(Strict):
    type: Literal["eof"]


class _Close(Strict):
    type: Literal["close"]


_FIRST: TypeAdapter[_Open | _Resume] = TypeAdapter(
    Annotated[_Open | _Resume, Field(discriminator="type")]
)
_LATER: TypeAdapter[_Resize | _Ack | _Eof | _Close] = TypeAdapter(
    Annotated[_Resize | _Ack | _Eof | _Close, Field(discriminator="type")]
)


class UnauthenticatedSockets:
    """WebSockets of one application that have not sent a ticket yet, whose number is limited.

    If there are too many, the one that has waited longest is closed. A real client sends its ticket
    at once, so idle connections cannot block it.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Timeout, str] = {}

    @contextmanager
    def admit(self, address: str, limit: asyncio.Timeout) -> Iterator[None]:
        """Count a WebSocket from ``address`` as unauthenticated within the context. If too many are
        open, the oldest is closed by letting its ``limit`` expire."""
        same = [timeout for timeout, origin in self._waiting.items() if origin == address]
        if len(same) >= MAX_PER_ADDRESS:
            self._expire(same[0])
        elif len(self._waiting) >= MOST_WAITING:
            self._expire(next(iter(self._waiting)))
        self._waiting[limit] = address
        try:
            yield
        finally:
            self._waiting.pop(limit, None)

    def _expire(self, limit: asyncio.Timeout) -> None:
        del self._waiting[limit]
        limit.reschedule(asyncio.get_running_loop().time())


async def serve_terminal(websocket: WebSocket, job_id: UUID, *, hold: bool) -> None:
    """Serve one terminal of a job, from the WebSocket's handshake to its end. ``hold`` keeps the
    terminal for a minute if the connection breaks."""
    platform: PlatformServices = websocket.app.state.platform
    origin = websocket.headers.get("origin")
    if origin is not None and origin != platform.settings.portal_url:
        await websocket.close()  # before it is accepted: 403
        return
    await websocket.accept()
    task = asyncio.current_task()
    if task is not None:
        get_open_streams(websocket.app).add(task, None)
    try:
        await _Connection(websocket, platform, job_id, hold=hold).run()
    except WebSocketDisconnect:
        return
    except asyncio.CancelledError:
        await _close_websocket(websocket, GOING_AWAY, "The platform is being stopped.")
    except AitneError as error:
        await _send_error(websocket, error)
    except Exception:
        log.exception("a terminal of job %s failed", job_id)
        await _close_websocket(
            websocket, FAILED, "An internal error; the platform's log has details."
        )


class _Connection:
    def __init__(
        self, websocket: WebSocket, platform: PlatformServices, job_id: UUID, *, hold: bool
    ) -> None:
        self._websocket = websocket
        self._terminals = platform.terminals
        self._job_id = job_id
        self._hold = hold
        self._dropped = False
        """Whether the connection was lost, rather than closed by the client."""

    async def run(self) -> None:
        first = _parse_message(_FIRST, await self._receive_first_message())
        if isinstance(first, _Open):
            name, terminal = await self._terminals.open(self._job_id, first.ticket, first.start)
            received = 0
        else:
            name, received = first.terminal, first.received
            terminal = await self._terminals.resume(self._job_id, first.ticket, name)
        number = self._terminals.connection(name)
        try:
            await self._websocket.send_json(_make_started_message(name, terminal))
            await self._relay_both_ways(terminal, received, name, number)
        except (WebSocketDisconnect, asyncio.CancelledError):
            raise
        except Exception:
            self._hold = False
            raise
        finally:
            await self._terminals.end_connection(
                name, number, keep_open=self._hold and self._dropped
            )

    async def _receive_first_message(self) -> str:
        websocket = self._websocket
        sockets: UnauthenticatedSockets = websocket.app.state.unauthenticated_sockets
        address = websocket.client.host if websocket.client else "unknown"
        try:
            async with asyncio.timeout(_FIRST_WITHIN_S) as limit:
                with sockets.admit(address, limit):
                    return await websocket.receive_text()
        except (TimeoutError, KeyError):
            raise InvalidInput("The first message must be a JSON text with a ticket.") from None

    async def _relay_both_ways(
        self, terminal: Terminal, received: int, name: str, number: int
    ) -> None:
        sending = asyncio.create_task(
            self._send_output(terminal, received), name="terminal to its user"
        )
        receiving = asyncio.create_task(
            self._receive_input(terminal), name="terminal from its user"
        )
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            for task in (receiving, sending):
                if task.done():
                    task.result()
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _send_output(self, terminal: Terminal, received: int) -> None:
        async with aclosing(terminal.stream_output(received)) as messages:
            async for message in messages:
                if isinstance(message, bytes):
                    await self._websocket.send_bytes(message)
                elif isinstance(message, InputAcknowledged):
                    await self._websocket.send_json({"type": "ack", "bytes": message.bytes})
                else:
                    await self._websocket.send_json(_make_exit_message(message))
                    await self._websocket.close()

    async def _receive_input(self, terminal: Terminal) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._dropped = message.get("code") != 1000
                raise WebSocketDisconnect(message.get("code") or 1006)
            data, text = message.get("bytes"), message.get("text")
            if data is not None:
                terminal.send_input(data)
                continue
            later = _parse_message(_LATER, text or "")
            if isinstance(later, _Ack):
                terminal.acknowledge(later.bytes)
            elif isinstance(later, _Resize):
                terminal.resize(Size(rows=later.rows, cols=later.cols))
            elif isinstance(later, _Eof):
                terminal.end_input()
            else:
                return


def _make_started_message(name: str, terminal: Terminal) -> dict[str, Any]:
    started = terminal.started
    return {
        "type": "started",
        "terminal": name,
        "node": started.node,
        "where": started.where,
        "host_key": started.host_key,
        "window": WINDOW_BYTES,
        "received": terminal.input_received,
    }


def _make_exit_message(over: TerminalExit) -> dict[str, Any]:
    return {"type": "exit", "code": over.code, "reason": over.reason}


def _parse_message(adapter: TypeAdapter[Any], text: str) -> Any:
    try:
        if len(text) > _LONGEST_TEXT:
            raise InvalidInput("The message is too long.")
        return adapter.validate_json(text)
    except ValidationError as error:
        # The field and what is wrong with it, never its value: that may be the ticket.
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"A message cannot be read: {path}: {explain_error(first)}") from None


async def _send_error(websocket: WebSocket, error: AitneError) -> None:
    """Send an error as a message and close the WebSocket: a browser cannot read the HTTP status of
    a rejected WebSocket."""
    problem = {
        "status": get_status(error),
        "code": error.code,
        "detail": error.message,
    }
    with suppress(RuntimeError, WebSocketDisconnect, OSError):
        await websocket.send_json({"type": "error", "problem": problem})
        await websocket.close(REFUSED)


async def _close_websocket(websocket: WebSocket, code: int, reason: str) -> None:
    if websocket.application_state is WebSocketState.CONNECTED:
        with suppress(RuntimeError, WebSocketDisconnect, OSError):
            await websocket.close(code, reason)
