"""Encrypted and signed messages between the controller of a rank group and the monitors of its
nodes, over the socket at which engines and kernels ask the controller too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MonitorChannel:
    """Connection of a monitor to the controller.

    Args:
        engine: content of ``engine.json``, with the controller's address and keys.
        identity: unique name of the monitor.
    """

    def __init__(self, engine: Mapping[str, Any], identity: str) -> None:
        import zmq
        from jupyter_client.session import Session

        self._session = Session(
            key=str(engine["key"]).encode(),
            signature_scheme=engine["signature_scheme"],
            packer=engine["pack"],
            unpacker=engine["unpack"],
        )
        public, secret = zmq.curve_keypair()
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, identity.encode())
        self.socket.setsockopt(zmq.LINGER, 2000)
        self.socket.curve_serverkey = str(engine["curve_serverkey"]).encode()
        self.socket.curve_publickey, self.socket.curve_secretkey = public, secret
        self.socket.connect(f"{engine['interface']}:{engine['registration']}")

    def send(self, kind: str, content: Mapping[str, Any]) -> None:
        """Send a message of the type ``kind`` to the controller."""
        self._session.send(self.socket, kind, content=dict(content))

    def receive(self) -> tuple[str, dict[str, Any]] | None:
        """Return type and content of the next message; None if there is none."""
        _, message = self._session.recv(self.socket)
        if message is None:
            return None
        return message["header"]["msg_type"], message["content"]

    def close(self) -> None:
        """Close the connection after the last messages were sent, within two seconds."""
        import zmq

        self.socket.close()
        zmq.Context.instance().term()
