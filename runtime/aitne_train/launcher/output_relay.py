"""Forwarding of the ranks' output: all bytes, in complete lines, in the order of each stream.

The launcher's own messages appear between those lines.
"""

from __future__ import annotations

import os
import select
import selectors
import sys
import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

LINES, LINE_BYTES = 40, 2_000
"""Maximum number of last lines of a failed rank's output that are kept, and of bytes in each."""
_LONGEST = 1 << 20
"""Maximum number of bytes that are held back until a line is complete."""
_READ = 1 << 16


class RankStream:
    """Output stream (stdout or stderr) of a rank.

    Args:
        rank: number of the rank.
        source: file descriptor from which the output is read.
        target: file descriptor to which it is written.
        prefix: written before each line.
    """

    def __init__(self, rank: int, source: int, target: int, prefix: bytes = b"") -> None:
        self.rank = rank
        self.source = source
        self.target = target
        self.prefix = prefix
        self.held = bytearray()
        self.begun = False
        """Whether an incomplete line was forwarded last, so that its rest needs no prefix."""
        self.last: deque[bytes] = deque(maxlen=LINES)
        self.ended = threading.Event()


class OutputRelay:
    """Thread that forwards the output streams of all ranks until each has ended.

    Args:
        streams: the streams; this class closes their sources.
        at_once: whether data are forwarded as they arrive and not in complete lines; only for a
            single rank.
    """

    def __init__(self, streams: Sequence[RankStream], at_once: bool) -> None:
        self._streams = list(streams)
        self._at_once = at_once
        self._open: dict[int, RankStream] = {}
        self._broken: set[int] = set()
        self._writing = False
        self._live = {target: os.isatty(target) for target in {stream.target for stream in streams}}
        self._selector = selectors.DefaultSelector()
        for stream in self._streams:
            self._selector.register(stream.source, selectors.EVENT_READ, stream)
        self._thread = threading.Thread(target=self._relay_output, name="aitne-output", daemon=True)
        self._thread.start()

    def wait_for_last_lines(self, rank: int, within_s: float) -> list[bytes]:
        """Return the last lines that an ended rank wrote to stderr, or to stdout if there are none.
        Wait at most ``within_s`` seconds until its output has been read."""
        streams = [stream for stream in self._streams if stream.rank == rank]
        for stream in streams:
            stream.ended.wait(within_s)
        for stream in sorted(streams, key=lambda candidate: -candidate.target):
            if stream.last:
                return list(stream.last)
        return []

    def finish(self, within_s: float) -> None:
        """Wait until all output is forwarded, however slowly it is read.

        If processes outside the run hold a stream open, wait at most ``within_s`` seconds.
        """
        self._thread.join(within_s)
        while self._thread.is_alive() and self._writing:
            self._thread.join(within_s)

    def _relay_output(self) -> None:
        while self._selector.get_map():
            for key, _ in self._selector.select():
                stream: RankStream = key.data
                try:
                    part = os.read(stream.source, _READ)
                except OSError:
                    part = b""
                if part:
                    self._take_output(stream, part)
                if not part or stream.target in self._broken:
                    self._close_stream(stream)
        self._selector.close()

    def _take_output(self, stream: RankStream, part: bytes) -> None:
        stream.held += part
        if self._at_once:
            end = len(stream.held)
        else:
            end = stream.held.rfind(b"\n") + 1
            if not end and self._live[stream.target] and not stream.prefix:
                end = stream.held.rfind(b"\r") + 1  # a progress bar on a terminal
            if not end and len(stream.held) > _LONGEST:
                end = len(stream.held)
        if end:
            self._forward(stream, bytes(stream.held[:end]))
            del stream.held[:end]

    def _close_stream(self, stream: RankStream) -> None:
        self._selector.unregister(stream.source)
        os.close(stream.source)
        if stream.held:
            self._forward(stream, bytes(stream.held))
            stream.held.clear()
        stream.ended.set()

    def _forward(self, stream: RankStream, data: bytes) -> None:
        _remember_lines(stream, data)
        if stream.prefix:
            data = (b"" if stream.begun else stream.prefix) + _add_prefix(data, stream.prefix)
        other = self._open.pop(stream.target, None)
        if other is not None and other is not stream:
            data = b"\n" + data  # so that lines of different ranks are not joined
            other.begun = False
        if not data.endswith(b"\n"):
            self._open[stream.target] = stream
        stream.begun = not data.endswith(b"\n")
        if stream.target not in self._broken:
            self._writing = True
            if not write_all(stream.target, data):
                self._broken.add(stream.target)
            self._writing = False


def write_all(descriptor: int, data: bytes) -> bool:
    """Write all data to a file descriptor; return False if the reader has closed the stream."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return False
    return True


def print_message(text: str) -> None:
    """Print a message for the user on standard error, between lines of the ranks' output."""
    sys.stderr.write(f"aitne-run: {text}\n")
    sys.stderr.flush()


def _add_prefix(data: bytes, prefix: bytes) -> bytes:
    complete = data.endswith(b"\n")
    body = data[:-1] if complete else data
    return body.replace(b"\n", b"\n" + prefix) + (b"\n" if complete else b"")


def _remember_lines(stream: RankStream, data: bytes) -> None:
    lines = data[-LINES * LINE_BYTES :].split(b"\n")
    if stream.begun and stream.last:
        lines[0] = stream.last.pop() + lines[0]
    if not lines[-1]:
        lines.pop()
    stream.last.extend(line[-LINE_BYTES:] for line in lines[-LINES:])
