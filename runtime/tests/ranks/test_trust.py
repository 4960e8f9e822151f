"""Tests of the trust between processes: without the run's token, a rank accepts nothing."""

from __future__ import annotations

import json
import os
import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime.tests.ranks.optimizer_work import started

import aitne_train as hvd
from aitne_train.errors import HorovodInternalError
from aitne_train.launcher.own_addresses import split_address
from aitne_train.transport.base import Reduction
from aitne_train.transport.torch_pg import TorchProcessGroup
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS


class MakesAFolder:
    """Runs code where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.path,)


def forged(me: Rank, folder: str) -> str:
    """Send from rank 0 what an attacker in a transport could send."""
    with started():
        if me.rank == 0:
            data = bytearray(b"\0" * 32 + pickle.dumps(MakesAFolder(folder)))
            hvd.broadcast_(torch.tensor([len(data)]), 0, "x.sz")
            hvd.broadcast_(torch.frombuffer(data, dtype=torch.uint8), 0, "x.t")
            return ""
        with pytest.raises(HorovodInternalError) as caught:
            hvd.broadcast_object(None, 0, "x")
        return str(caught.value)


def test_an_object_of_a_stranger_is_not_unpickled(pool: Pool, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    said = pool.run(forged, 2, str(folder))[1]
    assert "no rank of this run has sent" in said
    assert not folder.exists()


def answers(address: str) -> bool:
    try:
        socket.create_connection(split_address(address), 5).close()
    except OSError:
        return False
    return True


def between_nodes(me: Rank) -> list[float]:
    group = me.group()
    transport = TorchProcessGroup.connect(group, "cpu")
    flat = torch.ones(2)
    transport.allreduce(flat, Reduction.SUM)
    addresses = json.loads(me.store.get(f"{group.name}/torch_pg", 30))
    assert addresses
    assert [each for each in addresses if answers(each)] == []
    transport.barrier()
    transport.close()
    return flat.tolist()


def test_ranks_of_two_nodes_leave_no_store_open_to_strangers(pool: Pool) -> None:
    assert pool.run(between_nodes, 2, nodes=(0, 1)) == [[2.0, 2.0]] * 2
