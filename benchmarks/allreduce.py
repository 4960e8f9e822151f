"""An all-reduce over shared memory, over gloo and MPI among the same two ranks in the same run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import median, median_ratio

NAME = "allreduce"
RANKS = 2
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"4 KiB": 4 * KIB, "1 MiB": MIB, "16 MiB": 16 * MIB, "64 MiB": 64 * MIB}
TARGETS = (
    ("4 KiB", "gloo", 1 / 10),
    ("16 MiB", "gloo", 1 / 3),
    ("1 MiB", "mpi", 1.2),
    ("16 MiB", "mpi", 1.2),
    ("64 MiB", "mpi", 1.2),
)
WAYS = {
    "shm": "shm",
    "pure": "shm without its kernel",
    "gloo": "gloo",
    "mpi": "MPI, in place",
    "memcpy": "memcpy",
}
_TIMEOUT_S = 900.0


def measure(*, quick: bool) -> Figure:
    """Every way in turn, at each size; ``benchmarks.allreduce_rank`` is what the ranks do."""
    taken = _taken(9 if quick else 40)
    samples: Mapping[str, Mapping[str, Sequence[float]]] = taken["seconds"]
    over = [
        Row(
            f"{size}, shm over {WAYS[other]}",
            "x",
            median_ratio(list(zip(samples[size]["shm"], samples[size][other], strict=True))),
            target,
        )
        for size, other, target in TARGETS
    ]
    times = [
        Row(f"{size}, {name}", "ms", median([each * 1e3 for each in samples[size][way]]))
        for size in SIZES
        for way, name in WAYS.items()
    ]
    return Figure(
        NAME,
        "All-reduce of float32 between two ranks of a node",
        [*over, *times],
        [
            f"{RANKS} ranks, one thread each. Each value is the mean of as many calls as take some "
            "milliseconds; the ways take turns, in another order each time, and a ratio is of two that were "
            "taken one after the other. Time of rank 0.",
            "gloo is `torch.distributed.all_reduce` over the loopback interface, MPI is mpi4py's "
            "`Allreduce(IN_PLACE, …)`. memcpy is one process that copies as many bytes once, the other "
            "idle: less than that no all-reduce can take that reads and writes its tensor once.",
            f"PyTorch {taken['torch']}; {taken['mpi']}.",
        ],
    )


def _taken(rounds: int) -> dict[str, Any]:
    if find_spec("torch") is None or find_spec("mpi4py") is None or not shutil.which("mpirun"):
        raise BenchmarkError(
            "it needs torch, mpi4py and mpirun: make distrib; Debian's openmpi-bin"
        )
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    argv = ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(RANKS)]
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "AITNE_RENDEZVOUS_DIR": folder,
        }
        program = [sys.executable, "-m", "benchmarks.allreduce_rank", folder, str(rounds)]
        try:
            done = subprocess.run(
                [*argv, *program], env=env, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"the ranks took over {_TIMEOUT_S:g} s") from None
    if done.returncode:
        raise BenchmarkError(f"a rank failed:\n{done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
