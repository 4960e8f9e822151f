"""UNIX socket server of the broker: it admits permitted processes, reads their requests and returns
the results.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import pwd
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aitne import __version__
from aitne.broker.audit_log import BrokerAuditLog
from aitne.core.broker.error_conversion import error_to_wire
from aitne.core.broker.protocol import (
    MAX_REQUEST_BYTES,
    VERBS,
    BrokerRequest,
    Verb,
)
from aitne.core.broker.protocol_versions import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Hello,
    Welcome,
    find_common_version,
)
from aitne.core.broker.verb_base_models import Args
from aitne.core.errors import (
    AitneError,
    FieldProblem,
    InvalidInput,
    NotAllowed,
    SetupError,
    Unavailable,
)
from aitne.core.validation_messages import describe_allowed_values, describe_error

_LOG = logging.getLogger("aitne.broker")
_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid
_HELLO_TIMEOUT_S = 10.0
_LINGER_S = 1.0
_AT_ONCE = 64
"""Maximum number of requests of one connection that are handled concurrently.

Further requests are not read from the socket meanwhile.
"""
_MAX_CONNECTIONS = 64
"""Maximum number of connections of each permitted account.

Connections of other accounts are refused and not counted.
"""
_MAX_LINGERING = 16
_BACKLOG = 1_024
_LAST_WORK_S = 10.0
"""Seconds for which the broker, when it is stopped, waits for requests in progress."""
_REFUSAL_EVERY_S = 60.0
_MOST_REFUSED = 1_000


class VerbHandler(Protocol):
    """Interface of the object that executes the broker's verbs (kinds of requests)."""

    async def handle(self, verb: str, args: Args) -> BaseModel:
        """Execute the verb with its arguments and return the result. Raises ``AitneError``."""
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """Process that has connected to the broker, with the pid and uid that the kernel reports
    (SO_PEERCRED).
    """

    pid: int
    uid: int

    @classmethod
    def from_connection(cls, connection: socket.socket) -> Peer:
        """Return the process at the other end of a connected UNIX socket."""
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(packed)
        return cls(pid, uid)


def resolve_peer_uids(peers: list[int | str]) -> frozenset[int]:
    """Return the uids of these accounts, each given as a name or a uid.

    Raises ``SetupError`` for an account that does not exist.
    """
    uids = set()
    for peer in peers:
        try:
            uids.add(peer if isinstance(peer, int) else pwd.getpwnam(peer).pw_uid)
        except KeyError:
            raise SetupError(
                f"peers names the account {peer}, which does not exist here. Create it with "
                "`useradd --system`, or correct the broker's settings."
            ) from None
    return frozenset(uids)


def _find_common_group(peers: frozenset[int]) -> int | None:
    """Return the primary group of the permitted accounts beside root; None if they have no common
    one.
    """
    try:
        groups = {pwd.getpwuid(uid).pw_gid for uid in peers - {0}} or {0}
    except KeyError:
        return None
    return groups.pop() if len(groups) == 1 else None


class BrokerServer:
    """UNIX socket server of the broker, which answers requests of the accounts in ``peers`` and
    refuses all others.
    """

    def __init__(
        self,
        path: Path,
        peers: frozenset[int],
        handlers: VerbHandler,
        audit: BrokerAuditLog,
        welcome: Callable[[int], Welcome],
    ) -> None:
        self._path = path
        self._peers = peers
        self._handlers = handlers
        self._audit = audit
        self._welcome = welcome
        self._server: asyncio.Server | None = None
        self._closing = False
        self._connections: set[asyncio.Task[None]] = set()
        self._admitted: Counter[int] = Counter()
        self._lingering = 0
        self._refused: dict[int, tuple[float, int]] = {}

    async def start(self) -> None:
        """Create the socket and listen on it.

        Only members of the group of ``peers`` can connect, so that other accounts cannot keep them
        out. Without a common group any process can, and is refused.

        Raises:
            SetupError: the socket cannot be created.
        """
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(
                self._start_serving, new, limit=MAX_REQUEST_BYTES, backlog=_BACKLOG
            )
            group = _find_common_group(self._peers)
            os.chown(new, -1, -1 if group is None else group)
            new.chmod(0o666 if group is None else 0o660)
            new.replace(self._path)
        except OSError as error:
            raise SetupError(f"The socket {self._path} cannot be created: {error}") from error

    async def close(self) -> None:
        """Stop listening and end all connections."""
        self._closing = True
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _start_serving(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve_peer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        try:
            peer = Peer.from_connection(writer.get_extra_info("socket"))
            with self._admitted_connection(peer):
                async with asyncio.timeout(_HELLO_TIMEOUT_S):
                    welcome = self._welcome(await self._receive_hello(reader))
                    await connection.send(welcome.model_dump_json().encode() + b"\n")
                await self._handle_requests(connection, peer)
        except AitneError as error:
            await connection.send_error(error)
            await self._linger_before_close(connection)
        except (OSError, TimeoutError) as error:
            _LOG.info("a connection ended: %s", error)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    @contextmanager
    def _admitted_connection(self, peer: Peer) -> Iterator[None]:
        """Count a connection of the peer's account for the duration of the ``with`` block. Raises
        ``NotAllowed`` if the account is not permitted, ``Unavailable`` if it has too many
        connections.
        """
        self._check_admission(peer)
        self._admitted[peer.uid] += 1
        try:
            yield
        finally:
            self._admitted[peer.uid] -= 1

    async def _linger_before_close(self, connection: _Connection) -> None:
        if self._lingering >= _MAX_LINGERING:
            return
        self._lingering += 1
        try:
            await connection.discard_input(_LINGER_S)
        finally:
            self._lingering -= 1

    def _check_admission(self, peer: Peer) -> None:
        if peer.uid not in self._peers:
            self._write_refusal(peer)
            raise NotAllowed(
                f"uid {peer.uid} may not use the broker. Only the platform's own account may "
                "(`peers` in the broker's settings)."
            )
        if self._admitted[peer.uid] >= _MAX_CONNECTIONS:
            raise Unavailable(
                f"The broker has {_MAX_CONNECTIONS} connections of uid {peer.uid} already."
            )

    def _write_refusal(self, peer: Peer) -> None:
        """Write to the broker's audit log that a process was refused, for each uid at most once in
        ``_REFUSAL_EVERY_S`` seconds. Further refusals are only counted, and the next entry contains
        their number, so that refused processes cannot fill the disk.
        """
        now = time.monotonic()
        last, count = self._refused.get(peer.uid, (float("-inf"), 0))
        if now - last < _REFUSAL_EVERY_S:
            self._refused[peer.uid] = (last, count + 1)
            return
        if len(self._refused) > _MOST_REFUSED:
            self._refused.clear()
        self._refused[peer.uid] = (now, 0)
        self._audit.write_entry(
            peer_uid=peer.uid, peer_pid=peer.pid, verb="connect", outcome="refused", unwritten=count
        )

    async def _receive_hello(self, reader: asyncio.StreamReader) -> int:
        """Read the platform's ``Hello``; return the version of the protocol to speak.

        Raises ``SetupError`` if there is none that both sides speak.
        """
        try:
            hello = Hello.model_validate_json(await reader.readline())
        except ValueError as error:
            raise InvalidInput("The first line must be a greeting of this protocol.") from error
        version = find_common_version(hello)
        if version is None:
            older = "broker" if hello.protocol > PROTOCOL else "platform"
            theirs = _format_range(hello.oldest or hello.protocol, hello.protocol)
            raise SetupError(
                f"The platform (release {hello.release}) speaks protocol {theirs}, this broker (release "
                f"{__version__}) {_format_range(OLDEST_PROTOCOL, PROTOCOL)}. Their releases may "
                f"differ by one minor version: update the {older}."
            )
        return version

    async def _handle_requests(self, connection: _Connection, peer: Peer) -> None:
        """Handle requests until the peer closes the connection.

        Requests are executed even if the peer does not wait for the results.
        """
        room = asyncio.Semaphore(_AT_ONCE)
        tasks: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            room.release()
            tasks.discard(task)

        try:
            while True:
                await room.acquire()
                try:
                    line = await connection.reader.readline()
                except ValueError as error:
                    self._write_audit(peer, "?", (None, None), "refused", "a line that is too long")
                    raise InvalidInput(f"A line has at most {MAX_REQUEST_BYTES} bytes.") from error
                if not line:
                    return
                task = asyncio.create_task(self._answer_line(connection, peer, line))
                tasks.add(task)
                task.add_done_callback(ended)
        finally:
            await self._wait_for_requests(tasks)

    async def _wait_for_requests(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait until the requests have ended; when the broker itself is stopped, cancel them after
        ``_LAST_WORK_S`` seconds.
        """
        if not tasks:
            return
        try:
            _, late = await asyncio.wait(tasks, timeout=_LAST_WORK_S if self._closing else None)
        except asyncio.CancelledError:
            _, late = await asyncio.wait(tasks, timeout=_LAST_WORK_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _answer_line(self, connection: _Connection, peer: Peer, line: bytes) -> None:
        try:
            request = BrokerRequest.model_validate_json(line)
        except ValidationError as error:
            self._write_audit(peer, "?", (None, None), "refused", "not a request")
            await connection.send_error(_make_invalid_input("The line is not a request", error))
            return
        try:
            answer = await self._execute_request(peer, request)
        except AitneError as error:
            await connection.send_error(error, request.id)
            return
        head = b'{"id":%d,"ok":' % request.id
        passed_socket: socket.socket | None = getattr(answer, "passed_socket", None)
        await connection.send(head + answer.model_dump_json().encode() + b"}\n", passed_socket)

    async def _execute_request(self, peer: Peer, request: BrokerRequest) -> BaseModel:
        verb = VERBS.get(request.verb)
        if verb is None:
            self._write_audit(peer, request.verb, (None, None), "refused", "unknown verb")
            raise InvalidInput.field(
                "verb", "the broker has no such verb", value=request.verb, allowed=", ".join(VERBS)
            )
        try:
            args = verb.args.model_validate(request.args)
        except ValidationError as error:
            invalid = _make_invalid_input(f"The arguments of {verb.name} are wrong", error)
            self._write_audit(peer, verb.name, (None, None), "refused", invalid.message)
            raise invalid from error
        if verb.audited == "always" and self._audit.trouble is not None:
            # The line about this refusal is also the attempt to write again.
            self._write_audit(peer, verb.name, args.audit_subject, "refused", "no audit log")
            if self._audit.trouble is not None:
                raise Unavailable(
                    f"The broker refuses what it cannot log: {self._audit.trouble}. "
                    "Free space for its audit log."
                )
        begun = time.monotonic()
        try:
            answer = await self._execute_with_timeout(verb, args)
        except AitneError as error:
            refused = isinstance(error, NotAllowed | InvalidInput)
            outcome = "refused" if refused else error.code
            if refused or verb.audited == "always":
                self._write_audit(
                    peer, verb.name, args.audit_subject, outcome, error.message, begun
                )
            raise
        if verb.audited == "always":
            result = getattr(answer, "scheduler_id", None)
            self._write_audit(peer, verb.name, args.audit_subject, "done", result, begun)
        return answer

    async def _execute_with_timeout(self, verb: Verb, args: Args) -> BaseModel:
        try:
            async with asyncio.timeout(verb.timeout_s):
                return await self._handlers.handle(verb.name, args)
        except TimeoutError as error:
            raise verb.lost(
                f"The broker's {verb.name} did not end within {verb.timeout_s:g} s."
            ) from error
        except AitneError:
            raise
        except Exception as error:
            _LOG.exception("%s failed", verb.name)
            raise verb.lost(
                f"The broker's {verb.name} failed: {type(error).__name__}. See its log for details."
            ) from error

    def _write_audit(
        self,
        peer: Peer,
        verb: str,
        about: tuple[str | None, str | None],
        outcome: str,
        detail: str | None,
        begun: float | None = None,
    ) -> None:
        took = None if begun is None else round(time.monotonic() - begun, 4)
        self._audit.write_entry(
            peer_uid=peer.uid,
            peer_pid=peer.pid,
            verb=verb,
            account=about[0],
            job=about[1],
            outcome=outcome,
            detail=None if detail is None else detail[:500],
            seconds=took,
        )


def _format_range(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self._draining = asyncio.Lock()

    async def send(self, line: bytes, passed_socket: socket.socket | None = None) -> None:
        """Send a line to the peer. Errors of the connection are ignored.

        ``passed_socket`` is a socket that is passed to the peer with the line (SCM_RIGHTS) and then
        closed here; None: no socket.
        """
        try:
            with suppress(OSError):  # the peer may have closed the connection
                if passed_socket is not None:
                    line = await self._send_with_socket(line, passed_socket)
                self._writer.write(line)
                async with self._draining:
                    await self._writer.drain()
        finally:
            if passed_socket is not None:
                passed_socket.close()

    async def _send_with_socket(self, line: bytes, passed_socket: socket.socket) -> bytes:
        """Send the first byte of the line together with the socket, after all data that was written
        before. Return the rest of the line, which the caller sends.
        """
        async with self._draining:
            self._writer.transport.set_write_buffer_limits(0)  # drained means sent, then
            await self._writer.drain()
            raw = self._writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(raw.fileno())) as connection:
                socket.send_fds(connection, [line[:1]], [passed_socket.fileno()])
        return line[1:]

    async def discard_input(self, timeout_s: float) -> None:
        """Discard further input for ``timeout_s`` seconds, so that the peer can read what was sent.

        If the connection were closed immediately, sent responses could be lost.
        """
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(timeout_s):
                self._writer.write_eof()
                while await self.reader.read(1 << 16):
                    pass

    async def send_error(self, error: AitneError, number: int | None = None) -> None:
        answer: dict[str, Any] = {"id": number, "error": error_to_wire(error)}
        await self.send(json.dumps(answer).encode() + b"\n")


def _make_invalid_input(summary: str, error: ValidationError) -> InvalidInput:
    """Return an error that names the invalid fields but not their values, which may be secrets.
    ``summary`` is the beginning of the message.
    """
    parts = error.errors(include_input=False, include_url=False)
    problems = [_make_problem(part) for part in parts]
    details = "; ".join(f"{problem.field}: {problem.message}" for problem in problems[:5])
    return InvalidInput(f"{summary}: {details}", problems[:20])


def _make_problem(error: ErrorDetails) -> FieldProblem:
    """Return the problem of an argument; for one that is a job request, of the field in it."""
    parts = [str(part) for part in error["loc"] if part not in ("request", "[key]")]
    name = "files" if parts[:1] == ["files"] else ".".join(parts) or "line"
    return FieldProblem(name, describe_error(error), allowed=describe_allowed_values(error))


def lock_socket(path: Path) -> int:
    """Lock the socket's path for the lifetime of this process, and return the lock's descriptor.

    Raises ``SetupError`` if another broker process has locked it.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    file = os.open(
        path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise SetupError(f"Another broker serves {path} already.") from None
    return file
