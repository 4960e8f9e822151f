"""Protocol between the platform and the agent beside a job while a terminal is attached. Version 1.

Frames: NUL, one letter, the length (four bytes, big-endian), the content; the agent ends each of
its own with a newline, because Slurm forwards whole lines. Between frames the launching program may
write lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from aitne.core.models.base import Frozen, Strict

START, DATA, ERROR, RESIZE, END, EXIT = b"S", b"D", b"E", b"R", b"F", b"X"
SAID = b"?"
"""Kind that ``AgentFrameDecoder`` gives to a line of the launching program's own."""
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
    """A shell or a program beside the job's own program."""

    kind: Literal["shell"] = "shell"
    argv: tuple[Annotated[str, Field(max_length=100_000)], ...] = Field(
        (), max_length=1_000, description="The program with its arguments; empty: the user's shell."
    )
    tty: bool = Field(
        True, description="Allocate a terminal; without one, standard error is sent separately."
    )
    term: str = Field("xterm-256color", pattern=r"^[A-Za-z0-9._+-]{1,60}$")


class SshStart(Strict):
    """An SSH server for this one connection."""

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
    """``beside``: on the node although the job has a container, which cannot be entered."""
    host_key: str | None = Field(None, pattern=r"^[a-z0-9-]{1,40} [A-Za-z0-9+/=]{40,2000}$")
    """Host key of an SSH server. Clients write it into a file of such lines, so it is no more than
    one."""


class Exited(Frozen):
    """Message of the agent when the shell or SSH server has ended, or was not started."""

    code: int
    refused: str | None = None
    """Reason why nothing was started, without a full stop."""


def frame(kind: bytes, content: bytes) -> bytes:
    """Return one frame from the platform to the agent, with its header."""
    return _HEAD.pack(0, kind, len(content)) + content


class AgentFrameDecoder:
    """Parser of the frames in what the agent sends."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield kind and content of each frame that is complete. Raises ``ValueError`` for a frame
        that is too long."""
        self._data += data
        while self._data:
            if self._data[0] == 0:
                if len(self._data) < _HEAD.size:
                    return
                _, kind, size = _HEAD.unpack_from(self._data)
                if size > MAX_FRAME_BYTES:
                    raise ValueError("a frame is too long")
                whole = _HEAD.size + size + 1
                if len(self._data) < whole:
                    return
                content = bytes(self._data[_HEAD.size : whole - 1])
                del self._data[:whole]
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
    def rest(self) -> bytes:
        """The bytes at the end that do not yet form a complete frame or line."""
        return bytes(self._data)
