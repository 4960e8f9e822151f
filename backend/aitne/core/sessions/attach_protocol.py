"""Protocol between the platform and the agent that serves a terminal in a running job. Version 1.

A frame consists of NUL, one letter (its kind), the length (four bytes, big-endian), and the
content. The agent ends each of its frames with a newline, because Slurm forwards whole lines.
Between frames, the program that starts the agent may write lines of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from aitne.core.models.base import Frozen, Strict

START, DATA, ERROR, RESIZE, END, EXIT = b"S", b"D", b"E", b"R", b"F", b"X"
SAID = b"?"
"""Kind that ``AgentFrameDecoder`` reports for a line that the program which starts the agent has
written.
"""
MAX_FRAME_BYTES = 1 << 20
_HEAD = struct.Struct(">BcI")
HEAD_BYTES = _HEAD.size
_LONGEST_LINE = 4_096

Rows = Annotated[int, Field(ge=1, le=1_000, description="Lines of the terminal.", examples=[24])]
Columns = Annotated[int, Field(ge=1, le=1_000, description="Characters in a line.", examples=[80])]


class Size(Strict):
    """Size of the terminal in rows and columns."""

    rows: Rows = 24
    cols: Columns = 80


class ShellStart(Size):
    """Request to start a shell or another program next to the job's own program."""

    kind: Literal["shell"] = "shell"
    argv: tuple[Annotated[str, Field(max_length=100_000)], ...] = Field(
        (), max_length=1_000, description="The program with its arguments; empty: the user's shell."
    )
    tty: bool = Field(
        True, description="Allocate a terminal; without one, standard error is sent separately."
    )
    term: str = Field("xterm-256color", pattern=r"^[A-Za-z0-9._+-]{1,60}$")


class SshStart(Strict):
    """Request to start an SSH server for this connection only."""

    kind: Literal["ssh"]
    public_key: str = Field(
        pattern=r"^(ssh-ed25519|ecdsa-sha2-nistp[0-9]+|ssh-rsa) [A-Za-z0-9+/=]{40,2000}$",
        description="The only accepted key, without a comment.",
    )


Start = Annotated[ShellStart | SshStart, Field(discriminator="kind")]


class Started(Frozen):
    """Message of the agent after it has started the shell or SSH server."""

    node: str
    where: Literal["node", "container", "beside"]
    """Location of the started program; ``beside`` means on the node although the job has a
    container, because the container cannot be entered.
    """
    host_key: str | None = Field(None, pattern=r"^[a-z0-9-]{1,40} [A-Za-z0-9+/=]{40,2000}$")
    """Host key of the SSH server, on a single line, because clients add it to a file of such lines.
    None for a shell.
    """


class Exited(Frozen):
    """Message of the agent when the shell or SSH server has ended, or was not started."""

    code: int
    """Exit code of the shell or SSH server."""
    refused: str | None = None
    """Reason why nothing was started, without a full stop; None if the program was started."""


def encode_frame(kind: bytes, content: bytes) -> bytes:
    """Return one frame from the platform to the agent, with its header."""
    return _HEAD.pack(0, kind, len(content)) + content


class AgentFrameDecoder:
    """Decoder of the frames that the agent sends."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield kind and content of each frame that is complete after receiving ``data``.

        Raises ``ValueError`` if a frame is too long.
        """
        self._data += data
        while self._data:
            if self._data[0] == 0:
                if len(self._data) < _HEAD.size:
                    return
                _, kind, size = _HEAD.unpack_from(self._data)
                if size > MAX_FRAME_BYTES:
                    raise ValueError("a frame is too long")
                frame_length = _HEAD.size + size + 1
                if len(self._data) < frame_length:
                    return
                content = bytes(self._data[_HEAD.size : frame_length - 1])
                del self._data[:frame_length]
                yield kind, content
                continue
            end = self._data.find(b"\n")
            if end < 0 and len(self._data) < _LONGEST_LINE:
                return
            line = bytes(self._data[: end if end >= 0 else _LONGEST_LINE])
            del self._data[: len(line) + (end >= 0)]
            if line.strip():
                yield SAID, line

    @property
    def incomplete_data(self) -> bytes:
        """Bytes at the end of the received data that do not form a complete frame or line yet."""
        return bytes(self._data)
