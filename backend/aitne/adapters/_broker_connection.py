"""Persistent connection to the broker, on which requests are sent without waiting for earlier
responses; responses arrive in any order.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from aitne import __version__
from aitne.core.broker.error_conversion import error_from_wire
from aitne.core.broker.protocol import MAX_ANSWER_BYTES, MAX_REQUEST_BYTES
from aitne.core.broker.protocol_versions import (
    Hello,
    Welcome,
    downgrade_arguments,
    make_hellos,
    upgrade_answer,
)
from aitne.core.errors import InvalidInput

_CONNECT_TIMEOUT_S = 5.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


class BrokerRequestNotSent(Exception):
    """Error: the request certainly did not reach the broker, so it had no effect."""


class BrokerResponseLost(Exception):
    """Error: the broker may have received and executed the request, but no response came."""


class BrokerConnection:
    """Connection to the broker's socket. The first request opens it; after a loss the next request
    opens it again, with growing delays between failed attempts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._pause_s = _FIRST_PAUSE_S
        self._not_before = 0.0
        self._said = ""

    async def read_welcome(self) -> Welcome:
        """Return what the broker reported about itself when it connected. Raises
        ``BrokerRequestNotSent`` if no connection can be opened.
        """
        return (await self._get_connection()).welcome

    async def send_request(self, verb: str, args: dict[str, Any], timeout_s: float) -> Any:
        """Send a request and return the result (field ``ok``) in the broker's response.

        Raises:
            BrokerRequestNotSent: the broker did not receive the request.
            BrokerResponseLost: the broker may have received it, but no response came.
            InvalidInput: the request is too long.
            NotSupported, SchedulerRejected: the broker is older and lacks the verb, or a field that
                is set.
            AitneError: the error that the broker returned.
        """
        connection = await self._get_connection()
        broker = connection.welcome
        try:
            async with asyncio.timeout(timeout_s):
                answer = await connection.send_request(
                    verb, downgrade_arguments(verb, args, broker)
                )
        except TimeoutError:
            raise BrokerResponseLost(f"no answer within {timeout_s:g} s") from None
        if "error" in answer:
            raise error_from_wire(answer["error"])
        return upgrade_answer(verb, answer["ok"], broker)

    async def close(self) -> None:
        """Close the connection to the broker, if it is open."""
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def _get_connection(self) -> _Connection:
        if self._open is not None and self._open.is_alive:
            return self._open
        async with self._connecting:
            if self._open is not None:
                if self._open.is_alive:
                    return self._open
                await self._open.close()
                self._open = None
            clock = asyncio.get_running_loop().time
            if clock() < self._not_before:
                raise BrokerRequestNotSent(self._said)
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    self._open = await _connect_to_broker(self._path)
            except (OSError, TimeoutError, BrokerRequestNotSent) as error:
                self._said = str(error) or "no response"
                self._not_before = clock() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                raise BrokerRequestNotSent(self._said) from error
            self._pause_s, self._not_before = _FIRST_PAUSE_S, 0.0
            return self._open


async def _connect_to_broker(path: Path) -> _Connection:
    refusal = InvalidInput("")
    for hello in make_hellos(__version__):
        try:
            return await _open_connection(path, hello)
        except InvalidInput as error:
            refusal = error
    raise BrokerRequestNotSent(refusal.message)


async def _open_socket(path: Path) -> socket.socket:
    """Return a socket that is connected to ``path``, as soon as the broker has room for it. Raises
    ``OSError``.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        while True:
            try:
                line.connect(str(path))
            except BlockingIOError:  # too many connections wait to be accepted
                await asyncio.sleep(_FIRST_PAUSE_S)
            else:
                return line
    except BaseException:
        line.close()
        raise


async def _open_connection(path: Path, hello: Hello) -> _Connection:
    """Open a connection with ``hello`` as its first line.

    Raises:
        BrokerRequestNotSent: the broker does not answer, or refuses this platform.
        InvalidInput: the broker does not know a field of ``hello``.
    """
    connected = await _open_socket(path)
    reader, writer = await asyncio.open_unix_connection(sock=connected, limit=MAX_ANSWER_BYTES)
    try:
        writer.write(hello.model_dump_json(exclude_none=True).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        if not line:
            raise BrokerRequestNotSent("it closed the connection")
        facts = from_json(line)
        if "error" in facts:
            error = error_from_wire(facts["error"])
            if isinstance(error, InvalidInput):
                raise error
            raise BrokerRequestNotSent(error.message)
        welcome = Welcome.model_validate(facts)
        if not (hello.oldest or hello.protocol) <= welcome.protocol <= hello.protocol:
            raise BrokerRequestNotSent(
                f"it answers in protocol {welcome.protocol}, which this platform does not speak"
            )
        return _Connection(reader, writer, welcome)
    except BaseException as error:
        writer.close()
        if isinstance(error, ValueError | ValidationError):
            raise BrokerRequestNotSent(f"the process at {path} is not a broker") from error
        raise


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: Welcome
    ) -> None:
        self.welcome = welcome
        self._reader = reader
        self._writer = writer
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listener = asyncio.create_task(self._receive_responses(), name="broker-answers")

    @property
    def is_alive(self) -> bool:
        return not self._listener.done() and not self._writer.is_closing()

    async def send_request(self, verb: str, args: Mapping[str, Any]) -> Any:
        number = next(self._ids)
        line = json.dumps({"id": number, "verb": verb, "args": args}).encode() + b"\n"
        if len(line) > MAX_REQUEST_BYTES:
            raise InvalidInput(
                f"The job's script and files have {len(line)} bytes together; allowed: "
                f"{MAX_REQUEST_BYTES}. Put large values into files of your own."
            )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(line)
            await self._writer.drain()
            return await answer
        except OSError as error:
            raise BrokerResponseLost(str(error)) from error
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._listener.cancel()
        with suppress(asyncio.CancelledError):
            await self._listener
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _receive_responses(self) -> None:
        reason = "it closed the connection"
        try:
            while line := await self._reader.readline():
                answer = from_json(line)
                waiting = self._waiting.get(answer["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error) or type(error).__name__
        finally:
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(BrokerResponseLost(reason))
