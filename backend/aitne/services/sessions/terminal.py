"""One terminal: a program started next to a job's processes, and the data between the program and
the browser.

Both directions have a window: a sender that has filled it waits for acknowledgements. So a program
with endless output uses a bounded amount of memory, and neither direction blocks the other. Output
is kept until it is acknowledged, so that nothing is lost when a broken connection is resumed.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from uuid import UUID

from pydantic import ValidationError

from aitne.core.errors import Conflict, InvalidInput, Unavailable
from aitne.core.models.base import Frozen
from aitne.core.sessions import attach_protocol
from aitne.core.sessions.attach_protocol import (
    AgentFrameDecoder,
    Exited,
    ShellStart,
    Size,
    SshStart,
    Started,
)

WINDOW_BYTES = 256 << 10
STDOUT, STDERR = b"\x01", b"\x02"
"""First byte of a message with output, which identifies its stream."""
_CHUNK = 1 << 16
_START_WITHIN_S = 60.0
_CLOSE_WITHIN_S = 5.0
_LONGEST_SAID = 500


class InputAcknowledged(Frozen):
    """Message to the browser: the number of input bytes that have reached the program."""

    bytes: int


class TerminalExit(Frozen):
    """Message to the browser: the program or its job has ended. ``code`` is None if the exit code
    is unknown.
    """

    code: int | None
    reason: str | None = None


Outgoing = bytes | InputAcknowledged | TerminalExit


class Terminal:
    """Program that runs next to a job's processes, with its input and output; created by
    ``open_terminal``. ``close`` ends the program.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        frames: AgentFrameDecoder,
        first: list[tuple[bytes, bytes]],
        *,
        started: Started,
        owner: str,
        job_id: UUID,
    ) -> None:
        self.started = started
        self.owner = owner
        self.job_id = job_id
        self._reader = reader
        self._writer = writer
        self._frames = frames
        self._connections = 0
        self._chunks: deque[bytes] = deque()
        self._sent = 0
        """Number of chunks that the present connection has received."""
        self._taken = 0
        """Number of acknowledged bytes of output; the stored chunks begin after them."""
        self._waiting_bytes = 0
        self._input: deque[bytes] = deque()
        self._input_waiting = 0
        self._input_received = 0
        self._input_taken = 0
        self._input_ended = False
        self._over: TerminalExit | None = None
        self._said = b""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._more_input = asyncio.Event()
        for kind, content in first:
            self._handle_frame(kind, content)
        self._pumps = [
            asyncio.create_task(self._pump_output(), name="terminal output"),
            asyncio.create_task(self._pump_input(), name="terminal input"),
        ]

    # --- for the connection ----------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Return whether the program has ended."""
        return self._over is not None

    @property
    def input_received(self) -> int:
        """Number of bytes of input received so far. A resumed connection continues with the next
        byte.
        """
        return self._input_received

    async def stream_output(self, received: int) -> AsyncGenerator[Outgoing, None]:
        """Yield the output of the program as it arrives, until the program ends. The output begins
        after the first ``received`` bytes, which the browser already has.

        Raises:
            InvalidInput: ``received`` is more than was sent, or refers to output that is no longer
                stored.
        """
        self.acknowledge(received)
        self._sent = 0
        self._connections = connection_number = self._connections + 1
        self._changed.set()
        reported = -1
        while (
            connection_number == self._connections
        ):  # otherwise a resumed connection replaced this one
            self._changed.clear()
            if self._sent < len(self._chunks):
                self._sent += 1
                yield self._chunks[self._sent - 1]
            elif self._input_taken != reported:
                reported = self._input_taken
                yield InputAcknowledged(bytes=reported)
            elif self._over is not None:
                yield self._over
                return
            else:
                await self._changed.wait()

    def acknowledge(self, received: int) -> None:
        """Discard the first ``received`` bytes of output, because the browser has received them.

        Raises:
            InvalidInput: ``received`` is not at the end of a message that was sent.
        """
        while self._chunks and self._taken + len(self._chunks[0]) <= received:
            self._drop_oldest_chunk()
        if self._taken != received:
            raise InvalidInput(f"{received} bytes are not the end of a piece that was sent.")

    def _drop_oldest_chunk(self) -> None:
        size = len(self._chunks.popleft())
        self._taken += size
        self._waiting_bytes -= size
        self._sent = max(0, self._sent - 1)
        self._room.set()

    def send_input(self, data: bytes) -> None:
        """Queue input for the program.

        Raises:
            InvalidInput: the browser has sent more unacknowledged bytes than the window allows.
        """
        if not data:
            return  # does not count in the window, so the number would be unlimited
        if self._input_waiting + len(data) > WINDOW_BYTES:
            raise InvalidInput(
                f"More than {WINDOW_BYTES} bytes were sent before they were acknowledged."
            )
        self._input.append(attach_protocol.encode_frame(attach_protocol.DATA, data))
        self._input_waiting += len(data)
        self._input_received += len(data)
        self._more_input.set()

    def resize(self, size: Size) -> None:
        """Set the size of the terminal."""
        frame = attach_protocol.encode_frame(
            attach_protocol.RESIZE, size.model_dump_json().encode()
        )
        # Sizes must not accumulate for a program that reads nothing: only the last one counts.
        if self._input and self._input[-1][1:2] == attach_protocol.RESIZE:
            self._input[-1] = frame
        else:
            self._input.append(frame)
        self._more_input.set()

    def end_input(self) -> None:
        """Close the program's standard input."""
        if not self._input_ended:
            self._input_ended = True
            self._input.append(attach_protocol.encode_frame(attach_protocol.END, b""))
            self._more_input.set()

    async def close(self) -> None:
        """End the program, unless it has ended by itself."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            # The other side does not read its input: abort, so that it notices the end.
            self._writer.transport.abort()

    # --- the traffic -----------------------------------------------------------------------------

    async def _pump_output(self) -> None:
        over = TerminalExit(
            code=None, reason="The connection to the job was lost: it has probably ended."
        )
        try:
            while self._over is None:
                while self._waiting_bytes >= WINDOW_BYTES:
                    self._room.clear()
                    await self._room.wait()
                data = await self._reader.read(_CHUNK)
                if not data:
                    break
                for kind, content in self._frames.feed(data):
                    self._handle_frame(kind, content)
        except (OSError, ValueError, ValidationError) as error:
            over = TerminalExit(code=None, reason=f"The connection to the job failed: {error}.")
        finally:
            if self._over is None:
                message = (
                    (self._said or self._frames.incomplete_data).decode("utf-8", "replace").strip()
                )
                self._over = (
                    over if not message else TerminalExit(code=None, reason=message[:_LONGEST_SAID])
                )
            self._changed.set()
            self._more_input.set()

    def _handle_frame(self, kind: bytes, content: bytes) -> None:
        if kind in (attach_protocol.DATA, attach_protocol.ERROR):
            tag = STDOUT if kind == attach_protocol.DATA else STDERR
            self._chunks.append(tag + content)
            self._waiting_bytes += len(content) + 1
        elif kind == attach_protocol.EXIT:
            exit_message = Exited.model_validate_json(content)
            self._over = TerminalExit(code=exit_message.code, reason=exit_message.refused)
        elif kind == attach_protocol.SAID:
            self._said = content
        self._changed.set()

    async def _pump_input(self) -> None:
        with suppress(OSError):
            while self._over is None:
                if not self._input:
                    self._more_input.clear()
                    await self._more_input.wait()
                    continue
                frame = self._input.popleft()
                self._writer.write(frame)
                await self._writer.drain()
                if frame[1:2] == attach_protocol.DATA:
                    size = len(frame) - attach_protocol.HEAD_BYTES
                    self._input_waiting -= size
                    self._input_taken += size
                    self._changed.set()


async def open_terminal(
    connection: socket.socket, start: ShellStart | SshStart, *, node: str, owner: str, job_id: UUID
) -> Terminal:
    """Start a program next to a job's processes and return its terminal.

    Args:
        connection: socket that is connected to an agent on the node.
        node: name of the node.
        owner: owner of the job.

    Raises:
        Conflict: the agent refused to start the program.
        Unavailable: the agent did not answer.
    """
    connection.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    frames = AgentFrameDecoder()
    last_output = b""
    try:
        facts = json.dumps({**start.model_dump(mode="json"), "node": node}).encode()
        async with asyncio.timeout(_START_WITHIN_S):
            writer.write(attach_protocol.encode_frame(attach_protocol.START, facts))
            await writer.drain()
            while data := await reader.read(_CHUNK):
                pieces = list(frames.feed(data))
                for number, (kind, content) in enumerate(pieces):
                    if kind == attach_protocol.START:
                        return Terminal(
                            reader,
                            writer,
                            frames,
                            pieces[number + 1 :],
                            started=Started.model_validate_json(content),
                            owner=owner,
                            job_id=job_id,
                        )
                    if kind == attach_protocol.EXIT:
                        refused = Exited.model_validate_json(content).refused
                        raise Conflict(f"Nothing was started: {refused}.")
                    last_output = content
        last_output = last_output or frames.incomplete_data
        reason = (
            last_output.decode("utf-8", "replace").strip()[:_LONGEST_SAID]
            or "it closed the connection"
        )
        raise Unavailable(f"Nothing could be started in the job: {reason}.")
    except (OSError, ValueError) as error:
        writer.close()
        raise Unavailable(f"Nothing could be started in the job: {error}.") from error
    except BaseException:
        writer.close()
        raise
