"""One of the ranks that ``runtime.benchmarks.allreduce`` compares; ``mpirun`` starts them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import cycle, islice

import torch
import torch.distributed as dist
from mpi4py import MPI
from runtime.benchmarks.allreduce import SIZES

from aitne_train.launcher.rank_detection import detect_topology
from aitne_train.launcher.rendezvous_store_client import join_store
from aitne_train.transport import _shm_kernel
from aitne_train.transport.base import Group, Reduction
from aitne_train.transport.shm import ShmTransport

_SAMPLE_S = 4e-3
_MOST_CALLS = 200


def main(folder: str, rounds: int, ways: Sequence[str]) -> None:
    """Measure some of ``WAYS``, and print what rank 0 saw."""
    torch.set_num_threads(1)
    world = detect_topology(os.environ)
    store = join_store(world, os.environ)

    def connected(name: str) -> ShmTransport:
        everyone = tuple(range(world.size))
        group = Group(name, world.rank, everyone, (0,) * world.size, store)
        return ShmTransport.connect(group, "cpu")

    shm = connected("kernel")
    if not shm.is_native:
        raise SystemExit(
            f"the kernel of the shm transport cannot be used: {_shm_kernel.get_unavailable_reason()}"
        )
    os.environ[_shm_kernel.SWITCH] = "off"
    pure = connected("pure")
    if "gloo" in ways:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/gloo",
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=60),
        )
    seconds = {}
    for size, count in SIZES.items():
        flat = torch.zeros(count // 4)
        other = torch.ones_like(flat)
        array = flat.numpy()
        every: dict[str, Callable[[], object]] = {
            "shm": lambda flat=flat: shm.allreduce(flat, Reduction.SUM),
            "pure": lambda flat=flat: pure.allreduce(flat, Reduction.SUM),
            "gloo": lambda flat=flat: dist.all_reduce(flat),
            "mpi": lambda array=array: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array),
            "memcpy": lambda flat=flat, other=other: flat.copy_(other) if world.rank == 0 else None,
        }
        calls = {way: every[way] for way in ways}
        repeats = {way: _repeats(shm, call) for way, call in calls.items()}
        seconds[size] = {way: [] for way in calls}
        for number in range(rounds):
            for way in islice(cycle(calls), number, number + len(calls)):
                seconds[size][way].append(_sample(shm, calls[way], repeats[way]))
            flat.zero_()
    if world.rank == 0:
        mpi = MPI.Get_library_version().split(",")[0].strip()
        print(json.dumps({"seconds": seconds, "torch": torch.__version__, "mpi": mpi}))
    if "gloo" in ways:
        dist.destroy_process_group()
    pure.close()
    shm.close()


def _repeats(shm: ShmTransport, call: Callable[[], object]) -> int:
    """Return the number of calls that make one sample, chosen by rank 0 for all ranks."""
    call()
    taken = _sample(shm, call, 3)
    number = torch.tensor([max(1, min(_MOST_CALLS, int(_SAMPLE_S / max(taken, 1e-9))))])
    shm.broadcast(number, 0)
    return int(number)


def _sample(shm: ShmTransport, call: Callable[[], object], repeats: int) -> float:
    """Return the seconds of one call, as the mean of ``repeats`` calls.

    Ranks sleep while they wait at the barriers.
    """
    shm.barrier()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    taken = (time.perf_counter() - began) / repeats
    shm.barrier()
    return taken


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
