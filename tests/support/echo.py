"""A program beside a job that sends its input back."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any

from aitne.agent.attachment import FrameDecoder, encode_frame
from aitne.core.ports.attacher import AttachTarget


class EchoAttacher:
    """Fulfils ``core.ports.attacher.Attacher``. Input comes back; ``exit N`` ends it, ``flood`` floods."""

    def __init__(self) -> None:
        self.targets: list[AttachTarget] = []
        self.starts: list[dict[str, Any]] = []
        self.live = 0
        self.refusal: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start an echo connection; raise the refusal that the test has set."""
        if self.refusal is not None:
            raise self.refusal
        self.targets.append(target)
        ours, theirs = socket.socketpair()
        task = asyncio.create_task(self._echo(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    async def _echo(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        frames = FrameDecoder()
        self.live += 1
        try:
            while data := await reader.read(1 << 16):
                for kind, content in frames.feed(data):
                    for answer in self._answers(kind, content):
                        writer.write(answer)
                        with suppress(OSError):
                            await writer.drain()
                        if answer[1:2] == b"X":
                            return
        except OSError:
            return
        finally:
            self.live -= 1
            writer.close()

    def _answers(self, kind: bytes, content: bytes) -> list[bytes]:
        if kind == b"S":
            self.starts.append(json.loads(content))
            return [encode_frame(b"S", b'{"node": "node01", "where": "node"}')]
        if kind == b"R":
            size = json.loads(content)
            return [encode_frame(b"D", f"{size['rows']}x{size['cols']}".encode())]
        if kind == b"F":
            return [encode_frame(b"X", b'{"code": 0}')]
        if content.startswith(b"exit "):
            return [encode_frame(b"X", json.dumps({"code": int(content[5:])}).encode())]
        if content == b"flood\n":
            return [encode_frame(b"D", b"y" * 16_000)] * 200
        return [encode_frame(b"D", content)]

    async def close(self) -> None:
        """Close nothing: no resource is open."""
