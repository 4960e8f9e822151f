"""Tests of the connections of ranks to rank 0 while other clients connect as well."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aitne_train.control_channel import Control
from aitne_train.control_connection import connect_ranks
from aitne_train.errors import HorovodInternalError
from aitne_train.launcher.rank_detection import RankTopology
from aitne_train.launcher.rendezvous_store_client import TIMEOUT, RendezvousClient
from aitne_train.launcher.rendezvous_store_server import RendezvousServer


@pytest.fixture
def stores() -> Iterator[list[RendezvousClient]]:
    server = RendezvousServer("secret", "127.0.0.1")
    clients = [RendezvousClient([f"127.0.0.1:{server.port}"], "secret") for _ in range(3)]
    yield clients
    for each in clients:
        each.close()
    server.close()


def place(rank: int, size: int, nodes: int = 1) -> RankTopology:
    return RankTopology(rank, size, local_rank=rank, local_size=size // nodes)


def beside(call: Callable[[], tuple[Control, str]], into: list[Control]) -> threading.Thread:
    thread = threading.Thread(target=lambda: into.append(call()[0]), daemon=True)
    thread.start()
    return thread


def test_idle_strangers_delay_no_rank(
    stores: list[RendezvousClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "8")
    found: list[Control] = []
    zero = beside(lambda: connect_ranks(place(0, 3), stores[0], "g", "here"), found)
    port = json.loads(stores[1].get("control", 30))["port"]
    strangers = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(12)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\nHost: none\r\nAccept: */*\r\n\r\n")
    strangers[1].close()
    # Each has been taken in: it has its greeting.
    assert all(len(each.recv(16)) == 16 for each in strangers[2:])
    ranks = [
        beside(lambda rank=rank: connect_ranks(place(rank, 3), stores[rank], "g", "here"), found)  # type: ignore[misc]
        for rank in (1, 2)
    ]
    for each in (zero, *ranks):
        each.join(30)
    assert sorted(control.rank for control in found) == [0, 1, 2]
    for control in found:
        control.close()
    for each_stranger in strangers:
        each_stranger.close()


@pytest.mark.parametrize(("nodes", "only_loopback"), [(1, True), (2, False)])
def test_rank_0_listens_beyond_its_node_only_for_other_nodes(
    stores: list[RendezvousClient], nodes: int, only_loopback: bool
) -> None:
    found: list[Control] = []
    zero = beside(lambda: connect_ranks(place(0, 2, nodes), stores[0], "g", "here"), found)
    port = json.loads(stores[1].get("control", 30))["port"]
    listens = [
        row[1]
        for table in ("tcp", "tcp6")
        for row in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines())
        if row[1].endswith(f":{port:04X}") and row[3] == "0A"
    ]
    assert listens
    assert all(each.startswith("0100007F:") for each in listens) is only_loopback
    found.append(connect_ranks(place(1, 2, nodes), stores[1], "g", "here")[0])
    zero.join(30)
    assert sorted(control.rank for control in found) == [0, 1]
    for control in found:
        control.close()


def test_ranks_wait_for_a_rank_0_whose_first_attempt_was_interrupted(
    stores: list[RendezvousClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "0.1")
    with pytest.raises(HorovodInternalError, match=r"ranks \[1\] did not connect"):
        connect_ranks(place(0, 2), stores[0], "g1", "here")
    monkeypatch.setenv(TIMEOUT, "30")
    found: list[Control] = []
    prefixes: list[str] = []

    def reach() -> tuple[Control, str]:
        control, prefix = connect_ranks(place(1, 2), stores[1], "g1", "here")
        prefixes.append(prefix)
        return control, prefix

    one = beside(reach, found)
    control, prefix = connect_ranks(place(0, 2), stores[0], "g2", "here")
    one.join(30)
    assert [prefix, *prefixes] == ["g2", "g2"]
    for each in (control, *found):
        each.close()
