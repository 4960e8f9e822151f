"""The account at the other end of the broker's socket."""

from __future__ import annotations

import os
import socket
from uuid import uuid4

import pytest

from aitne.broker.server import Peer
from aitne.core.settings import AccountSettings

UID = 3_000_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root takes another uid")
def test_peer_may_have_a_uid_of_the_upper_half() -> None:
    assert AccountSettings(max_uid=UID).max_uid == UID
    address = f"\0{uuid4()}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(address)
        listener.listen()
        os.seteuid(UID)  # the kernel notes which account connects
        try:
            client.connect(address)
        finally:
            os.seteuid(0)
        connection, _ = listener.accept()
        with connection:
            assert Peer.from_connection(connection) == Peer(os.getpid(), UID)
