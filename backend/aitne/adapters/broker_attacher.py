"""Attachment to running jobs through the broker. Each attachment has its own connection, over which
the broker returns a socket.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from aitne import __version__
from aitne.adapters.broker_scheduler import convert_refusals_to_rejections
from aitne.core.broker.error_conversion import error_from_wire
from aitne.core.broker.protocol import VERBS
from aitne.core.broker.protocol_versions import make_hellos
from aitne.core.errors import AitneError, InvalidInput, NotAllowed, SetupError, Unavailable
from aitne.core.ports.attacher import AttachTarget
from aitne.core.settings import Settings

_GRACE_S = 5.0
_LONGEST_LINE = 1 << 20


class BrokerAttacher:
    """Implementation of ``core.ports.attacher.Attacher`` through the broker, which runs srun as the
    job's account.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.broker.socket is None:
            raise SetupError("There is no broker: broker.socket is not set.")
        self._socket = settings.broker.socket

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start the agent inside the job's allocation through the broker, and return the socket
        that is connected to the agent.

        Raises:
            SchedulerRejected: the job does not run there, or the broker refuses.
            NotSupported, RateLimited: as the broker reports.
            Unavailable: the broker does not answer.
        """
        if target.run.account is None:
            raise NotAllowed("The job has no Unix account, and the broker acts only for accounts.")
        with convert_refusals_to_rejections():
            return await asyncio.to_thread(
                self._send_attach_request, target.model_dump(mode="json")
            )

    def _send_attach_request(self, args: dict[str, Any]) -> socket.socket:
        handed_over: list[int] = []
        connection: socket.socket | None = None
        try:
            connection = self._connect()
            ask = {"id": 1, "verb": "attach", "args": args}
            connection.sendall(json.dumps(ask).encode() + b"\n")
            _check_response(_receive_line(connection, handed_over))
            if len(handed_over) != 1:
                raise Unavailable("The broker has answered without a connection to the job.")
            return socket.socket(fileno=handed_over.pop())
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"The broker at {self._socket} does not answer: {error}. Nothing was started; "
                "check `systemctl status aitne-broker` if this persists."
            ) from error
        finally:
            for descriptor in handed_over:
                with suppress(OSError):
                    socket.socket(fileno=descriptor).close()
            if connection is not None:
                connection.close()

    def _connect(self) -> socket.socket:
        """Return a connection on which the broker has answered the greeting."""
        refusal: AitneError = InvalidInput("")
        for hello in make_hellos(__version__):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(VERBS["attach"].timeout_s + _GRACE_S)
                connection.connect(str(self._socket))
                connection.sendall(hello.model_dump_json(exclude_none=True).encode() + b"\n")
                _check_response(_receive_line(connection, []))
            except InvalidInput as error:
                connection.close()
                refusal = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise refusal

    async def close(self) -> None:
        """Do nothing: no resources are held."""


def _receive_line(connection: socket.socket, handed_over: list[int]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 4)
        handed_over += descriptors
        line += data
        if not data or len(line) > _LONGEST_LINE:
            raise ValueError("it closed the connection")
    return line


def _check_response(line: bytes) -> None:
    """Check a response of the broker; raises the error that it contains, if any."""
    facts = from_json(line)
    if "error" in facts:
        raise error_from_wire(facts["error"])
