"""Stream of events from the platform (server-sent events), resumed after a broken connection."""

from __future__ import annotations

import json

from aitne.client.api_session import RequestBackoff
from aitne.client.http_transport import ConnectionFailed
from aitne.client.records import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aitne.client.api_session import ApiSession
    from aitne.client.transport import Reply

SILENCE_S = 40.0
"""Timeout in seconds. The platform sends a comment every 15 seconds, so a longer silence means that
the connection is broken."""
COMMENT = ":"
"""Name that stands for a comment, which the platform sends so that the connection stays open."""
CONTROL = frozenset({"hello", "reset"})
"""Names of messages about the stream itself: ``hello`` at its beginning, ``reset`` if events were
skipped."""


def follow_events(
    session: ApiSession, after: int | None = None, *, until: Callable[[], bool] = lambda: False
) -> Iterator[Event | None]:
    """Yield every event that the user may see: from now on, or those after the event id ``after``.
    The stream ends when ``until`` returns True, which is called after each message and at least
    every ``SILENCE_S`` seconds.

    None is yielded each time the stream is opened, and when the platform skips events: a caller
    that follows an object should then read it again, so that no change is missed. A broken
    connection is resumed after the last event received.

    Raises:
        Unavailable: the platform did not answer for as long as requests are repeated.
    """
    patience = RequestBackoff(session)
    while True:
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            reply = session.open_stream("/events", headers=headers, timeout_s=SILENCE_S)
            try:
                for kind, text in parse_server_sent_events(reply):
                    patience.reset()
                    if kind != COMMENT:
                        data = json.loads(text)
                        after = data["last_event_id"] if kind in CONTROL else data["id"]
                        yield None if kind in CONTROL else Event(data)
                    if until():
                        return
            finally:
                reply.close()
            raise ConnectionFailed("it ended the stream", sent=True)
        except ConnectionFailed as failure:
            patience.handle_failure(failure, repeatable=True)


def parse_server_sent_events(reply: Reply) -> Iterator[tuple[str, str]]:
    """Yield the event name and data of each message in a stream of server-sent events; for a
    comment, ``COMMENT`` and an empty string.
    """
    kind, data = "message", list[str]()
    for line in _split_lines(reply):
        if not line:
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []
            continue
        if line.startswith(":"):
            yield COMMENT, ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _split_lines(reply: Reply) -> Iterator[str]:
    rest = b""
    for chunk in reply.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()
