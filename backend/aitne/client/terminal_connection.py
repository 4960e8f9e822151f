"""Connection to a terminal, a program or an SSH server in a running job, over a WebSocket.

Flow control in both directions limits the data that was sent and not yet acknowledged.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack

from aitne.client.api_session import API, quote_segment
from aitne.client.http_transport import make_tls_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from aitne.client.api_session import ApiSession

OUT, ERRORS = 1, 2
"""Kinds of output: standard output (for a terminal, all output), and standard error."""
_PIECE = 32 << 10
_OPEN_WITHIN_S = 90.0
_CLOSE_WITHIN_S = 2.0
_LARGEST_MESSAGE = 4 << 20


class TerminalConnection:
    """Connection to a program in a running job, as ``client.jobs.attach`` returns it; a context
    manager. One thread may read while others write."""

    def __init__(
        self, session: ApiSession, job_id: str, *, node: str | None, start: dict[str, Any]
    ) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        path = f"/jobs/{quote_segment(job_id)}/terminal"
        ticket = session.request_json("POST", path, body={"node": node}, repeatable=True)
        self.node: str = ticket["node"]
        self.account: str = ticket["account"]
        url = session.platform.url.rstrip("/")
        self._open = ExitStack()
        try:
            self._socket = self._open.enter_context(
                connect(
                    f"ws{url.removeprefix('http')}{API}{path}",
                    open_timeout=_OPEN_WITHIN_S,
                    close_timeout=_CLOSE_WITHIN_S,
                    max_size=_LARGEST_MESSAGE,
                    ssl=make_tls_context(session.platform.ca_file)
                    if url.startswith("https")
                    else None,
                    compression=None,
                    proxy=None,
                    user_agent_header="aitne-client",
                )
            )
        except (OSError, WebSocketException) as error:
            from aitne.client.errors import Unreachable

            raise Unreachable(
                f"{url} accepts no WebSocket: {error}. A proxy in front of the platform must "
                "forward WebSockets (docs/howto/terminal-and-ssh.md)."
            ) from error
        self._room = threading.Condition()
        self._on_its_way = 0
        self._written = 0
        self._ended = False
        self.exit_code: int | None = None
        """Exit code of the program; None before its end, or if it is unknown."""
        self.reason: str | None = None
        """Reason why the connection ended; None if the program ended by itself."""
        try:
            self._send({"type": "open", "ticket": ticket["ticket"], "start": start})
            started = self._receive_message(_OPEN_WITHIN_S)
        except BaseException:
            self.close()
            raise
        self._window = int(started["window"])
        self.where: str = started["where"]
        """Place of the program: ``container``, ``node`` for a job without one, or ``beside`` if the
        job's container cannot be entered and the program runs outside of it."""
        self.host_key: str | None = started.get("host_key")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield output as it arrives, until the program has ended: pairs of the kind, ``OUT`` or
        ``ERRORS``, and bytes.

        Raises:
            Unreachable: the connection broke.
            AitneError: the platform ended the connection.
        """
        received = 0
        try:
            while True:
                message = self._receive(None)
                if isinstance(message, bytes):
                    yield message[0], message[1:]
                    received += len(message)
                    self._send({"type": "ack", "bytes": received})
                    continue
                message_fields = self._parse_message(message)
                if message_fields["type"] == "ack":
                    with self._room:
                        self._on_its_way = self._written - int(message_fields["bytes"])
                        self._room.notify_all()
                elif message_fields["type"] == "exit":
                    self.exit_code, self.reason = message_fields["code"], message_fields["reason"]
                    return
        finally:
            with self._room:
                self._ended = True
                self._room.notify_all()

    def write(self, data: bytes) -> None:
        """Send input to the program; block while too much is unacknowledged. After the program's
        end, input is discarded."""
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            with self._room:
                while self._on_its_way + len(piece) > self._window and not self._ended:
                    self._room.wait()
                if self._ended:
                    return
                self._on_its_way += len(piece)
                self._written += len(piece)
            self._send(piece)

    def resize(self, rows: int, cols: int) -> None:
        """Tell the program the new size of the terminal in characters."""
        self._send({"type": "resize", "rows": rows, "cols": cols})

    def end_input(self) -> None:
        """Close the program's standard input; afterwards nothing can be written."""
        self._send({"type": "eof"})

    def close(self) -> None:
        """Close the connection, which ends the program."""
        with self._room:
            self._ended = True
            self._room.notify_all()
        self._open.close()

    def _send(self, message: bytes | dict[str, Any]) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            self._socket.send(message if isinstance(message, bytes) else json.dumps(message))
        except ConnectionClosed:
            return  # ``read`` reports it

    def _receive(self, timeout_s: float | None) -> bytes | str:
        from websockets.exceptions import ConnectionClosed

        try:
            return self._socket.recv(timeout_s)
        except (ConnectionClosed, TimeoutError) as error:
            from aitne.client.errors import Unreachable

            raise Unreachable(
                f"The connection to the job on {self.node} broke ({error}); what ran in it has ended."
            ) from error

    def _receive_message(self, timeout_s: float) -> Any:
        message = self._receive(timeout_s)
        return self._parse_message(message if isinstance(message, str) else "{}")

    def _parse_message(self, message: str) -> Any:
        message_fields = json.loads(message)
        if message_fields.get("type") == "error":
            from aitne.client.errors import make_error_from_problem

            problem = message_fields["problem"]
            raise make_error_from_problem(problem["status"], {}, json.dumps(problem).encode())
        return message_fields


def attach_program(
    session: ApiSession,
    job_id: str,
    argv: Sequence[str] = (),
    *,
    node: str | None,
    tty: bool,
    rows: int,
    cols: int,
    term: str,
) -> TerminalConnection:
    """Start a program in a running job, as described for ``Jobs.attach``."""
    start = {
        "kind": "shell",
        "argv": [*argv],
        "tty": tty,
        "rows": rows,
        "cols": cols,
        "term": term,
    }
    return TerminalConnection(session, job_id, node=node, start=start)


def attach_ssh(
    session: ApiSession, job_id: str, public_key: str, *, node: str | None
) -> TerminalConnection:
    """Start an SSH server in a running job, as described for ``Jobs.attach_ssh``."""
    return TerminalConnection(
        session, job_id, node=node, start={"kind": "ssh", "public_key": public_key}
    )
