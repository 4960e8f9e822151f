"""``python shm_many_ranks.py 64``: so many ranks, forked from one process, exchange over shared memory.

Then the last one is killed, which all others are told.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.managers import DictProxy

import pytest
import torch

from aitne_train.transport.base import Group, Reduction, TransportError
from aitne_train.transport.shm import ShmTransport


class Store:
    """A folder would do; forked ranks have a pipe to one process."""

    def __init__(self, values: DictProxy[str, bytes]) -> None:
        self._values = values

    def set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def get(self, key: str, timeout_s: float) -> bytes:
        until = time.monotonic() + timeout_s
        while key not in self._values:
            if time.monotonic() > until:
                raise TimeoutError(key)
            time.sleep(0.01)
        return self._values[key]


def rank_main(rank: int, size: int, values: DictProxy[str, bytes]) -> None:
    torch.set_num_threads(1)
    everyone = tuple(range(size))
    transport = ShmTransport.connect(
        Group("many", rank, everyone, (0,) * size, Store(values)), "cpu"
    )
    for count in (1, 1000, 100_003):
        flat = torch.full((count,), float(rank))
        transport.allreduce(flat, Reduction.SUM)
        assert torch.equal(flat, torch.full((count,), float(sum(everyone))))
    out = torch.empty(sum(everyone), dtype=torch.int16)
    transport.allgather(out, torch.full((rank,), rank, dtype=torch.int16), everyone)
    assert torch.equal(
        out, torch.repeat_interleave(torch.tensor(everyone), torch.tensor(everyone)).short()
    )
    each = torch.empty(size, dtype=torch.int64)
    transport.alltoall(each, torch.arange(size) * 1000 + rank, [1] * size, [1] * size)
    assert torch.equal(each, torch.arange(size) + rank * 1000)
    part = torch.empty(2)
    transport.reducescatter(part, torch.arange(2.0 * size), [2] * size, Reduction.SUM)
    assert torch.equal(part, torch.tensor([2.0 * rank, 2.0 * rank + 1]) * size)
    transport.broadcast(flat.fill_(rank), size - 1)
    assert torch.equal(flat, torch.full_like(flat, size - 1))
    transport.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(TransportError, match=f"Rank {size - 1} is gone"):
        transport.barrier()
    transport.close()


def main(size: int) -> int:
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        values = manager.dict()
        ranks = [
            context.Process(target=rank_main, args=(rank, size, values)) for rank in range(size)
        ]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
    failed = [
        rank
        for rank, each in enumerate(ranks)
        if each.exitcode != (-signal.SIGKILL if rank == size - 1 else 0)
    ]
    if failed:
        sys.stderr.write(f"ranks {failed} failed\n")
        return 1
    sys.stdout.write(f"{size} ranks\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
