"""Tests of the release of shared memory when ranks leave while it is set up."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne_train.launcher.rendezvous_store_client import RendezvousClient
from aitne_train.launcher.rendezvous_store_server import RendezvousServer
from aitne_train.transport import _shm_memory, _shm_rendezvous
from aitne_train.transport.base import Group, TransportError


@pytest.fixture
def groups() -> Iterator[list[Group]]:
    server = RendezvousServer("secret", "127.0.0.1")
    clients = [RendezvousClient([f"127.0.0.1:{server.port}"], "secret") for _ in range(2)]
    yield [Group("g", rank, (0, 1), (0, 0), store) for rank, store in enumerate(clients)]
    for each in clients:
        each.close()
    server.close()


def memory_held() -> int:
    targets = []
    for name in os.listdir("/proc/self/fd"):
        try:
            targets.append(Path(f"/proc/self/fd/{name}").readlink())
        except FileNotFoundError:
            continue  # the listing's own
    return sum("aitne-shm" in str(each) for each in targets)


def test_memory_goes_back_when_a_rank_leaves_before_all_have_it(groups: list[Group]) -> None:
    def leave() -> None:
        connection, fd, *_ = _shm_rendezvous.receive_descriptor(groups[1], able=True)
        os.close(fd)
        connection.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(TransportError, match="Rank 1 went away"):
        _shm_memory.share_memory(groups[0], able=True)
    leaving.join()
    assert memory_held() == 0


def test_memory_goes_back_when_rank_0_leaves_before_all_have_it(groups: list[Group]) -> None:
    def leave() -> None:
        with _shm_rendezvous.RendezvousHost(groups[0]) as host:
            host.gather_ranks(able=True)
            fd = _shm_memory._reserve_memory(_shm_memory.choose_layout(2, True).total)
            host._send_to(1, host._members[1], {"use": True, "processors": 2}, [fd])
            os.close(fd)

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(TransportError, match="Rank 0 went away"):
        _shm_memory.share_memory(groups[1], able=True)
    leaving.join()
    assert memory_held() == 0
