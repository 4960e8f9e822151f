"""The audit log at a real receiver on the loopback."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.adapters.syslog import SyslogReceiver
from aitne.core.errors import DeliveryFailed
from aitne.services.audit import AuditService
from aitne.services.controller.audit_forwarder import AuditForwarder
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.leader import Leader
from aitne.store import Store
from tests.support.ports import reserve_ports


def listen(kind: str, folder: Path) -> tuple[str, socket.socket]:
    """Return the target of a new receiver, and its socket."""
    if kind == "tcp":
        server = socket.create_server(("127.0.0.1", 0))
    else:
        server = socket.socket(
            socket.AF_INET if kind == "udp" else socket.AF_UNIX, socket.SOCK_DGRAM
        )
        server.bind(("127.0.0.1", 0) if kind == "udp" else str(folder / "log"))
    server.settimeout(10)
    name = server.getsockname()
    return (name if kind == "unix" else f"{kind}://127.0.0.1:{name[1]}"), server


def received(kind: str, server: socket.socket, count: int) -> list[str]:
    """Return the next lines that were sent to the receiver."""
    if kind != "tcp":
        return [server.recv(65_536).decode() for _ in range(count)]
    connection, _ = server.accept()
    with connection, connection.makefile() as file:
        return file.read().splitlines()


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix"])
async def test_each_entry_is_forwarded_once_and_in_order(tmp_path: Path, kind: str) -> None:
    target, server = listen(kind, tmp_path)
    store = Store(f"sqlite:///{tmp_path / 'aitne.db'}")
    await store.start()
    with server:
        leader = Leader(store, "test", ControllerCounters())
        await leader.acquire()
        forwarder = AuditForwarder(store, leader, SyslogReceiver(target))
        audit = AuditService(store, lambda: datetime(2026, 3, 1, tzinfo=UTC))
        for name in ("ada\n<1>forged", "bob"):
            await audit.record(
                actor=name, action="login", object=None, outcome="allowed", address="::1"
            )
        assert not await forwarder.forward_batch()
        lines = received(kind, server, 2)
        assert not await forwarder.forward_batch(), "nothing is left"
        await audit.record(actor="eve", action="x", object=None, outcome="denied", address=None)
        await forwarder.forward_batch()
        lines += received(kind, server, 1)
    await leader.release()
    await store.close()
    assert all(line.startswith("<86>1 ") for line in lines)
    entries = [json.loads(line[line.index("{") :]) for line in lines]
    assert [entry["actor"] for entry in entries] == ["ada\n<1>forged", "bob", "eve"]
    assert all(entry["hash"] for entry in entries)


async def test_entries_wait_while_the_receiver_is_away(tmp_path: Path) -> None:
    port = reserve_ports()
    store = Store(f"sqlite:///{tmp_path / 'aitne.db'}")
    await store.start()
    leader = Leader(store, "test", ControllerCounters())
    await leader.acquire()
    audit = AuditService(store, lambda: datetime(2026, 3, 1, tzinfo=UTC))
    await audit.record(actor="ada", action="x", object=None, outcome="denied", address=None)
    forwarder = AuditForwarder(store, leader, SyslogReceiver(f"tcp://127.0.0.1:{port}"))
    with pytest.raises(DeliveryFailed, match="cannot be reached"):
        await forwarder.forward_batch()
    with socket.create_server(("127.0.0.1", port)) as server:
        await forwarder.forward_batch()
        (line,) = received("tcp", server, 1)
    await leader.release()
    await store.close()
    assert '"actor":"ada"' in line
