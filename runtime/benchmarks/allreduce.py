"""Time of an all-reduce over shared memory, compared with gloo and MPI, among ranks of one node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import median, median_ratio

NAME = "allreduce"
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
_PROCESSES = (("shm", "pure", "mpi", "memcpy"), ("gloo",))
"""Ways that run in the same processes; gloo's threads would take CPU time from the others."""
_BLOCKS = 4
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The number of ranks and the unit that each is bound to."""

    name: str
    ranks: int
    bind_to: str


LAYOUTS = (
    Layout("2 ranks", 2, "none"),
    Layout("2 ranks, bound", 2, "core"),
    Layout("4 ranks", 4, "none"),
)
"""The measured layouts; the first has targets."""


def measure(*, quick: bool) -> Figure:
    """Measure all ways in turn, at each size; the ranks run ``runtime.benchmarks.allreduce_rank``."""
    if find_spec("torch") is None or find_spec("mpi4py") is None or not shutil.which("mpirun"):
        raise BenchmarkError(
            "it needs torch, mpi4py and mpirun: make distrib; Debian's openmpi-bin"
        )
    rounds = 3 if quick else 10
    over: list[Row] = []
    times: list[Row] = []
    about: Mapping[str, str] = {}
    for layout in LAYOUTS:
        samples, about = _blocks(layout, rounds)
        for size, other, target in TARGETS:
            pairs = list(zip(samples[size, "shm"], samples[size, other], strict=True))
            name = f"{layout.name}, {size}, shm over {WAYS[other]}"
            over.append(
                Row(name, "x", median_ratio(pairs), target if layout is LAYOUTS[0] else None)
            )
        times += [
            Row(f"{layout.name}, {size}, {name}", "ms", median([each * 1e3 for each in seconds]))
            for size in SIZES
            for way, name in WAYS.items()
            if (seconds := samples[size, way])
        ]
    return Figure(
        NAME,
        "All-reduce of float32 between ranks of a node",
        [*over, *times],
        [
            "One thread a rank. Each value is the mean of as many calls as take some milliseconds; the ways "
            "take turns, in another order each time. gloo has processes of its own, which are started in turn "
            f"with those of the other ways, {_BLOCKS} times. Time of rank 0.",
            "gloo is `torch.distributed.all_reduce` over the loopback interface, MPI is mpi4py's "
            "`Allreduce(IN_PLACE, …)`. memcpy is one process that copies as many bytes once, the other "
            "idle: less than that no all-reduce can take that reads and writes its tensor once.",
            "Bound: `mpirun --bind-to core`, so that each rank sees one processor.",
            f"PyTorch {about['torch']}; {about['mpi']}.",
        ],
    )


def _blocks(
    layout: Layout, rounds: int
) -> tuple[Mapping[tuple[str, str], Sequence[float]], Mapping[str, str]]:
    """Return the samples in seconds by size and way, and the versions of PyTorch and MPI."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    found: dict[str, Any] = {}
    for _ in range(_BLOCKS):
        for ways in _PROCESSES:
            found = _run_ranks(layout, ways, rounds)
            for size, by_way in found["seconds"].items():
                for way, seconds in by_way.items():
                    samples[size, way] += seconds
    return samples, {"torch": found["torch"], "mpi": found["mpi"]}


def _run_ranks(layout: Layout, ways: Sequence[str], rounds: int) -> dict[str, Any]:
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    argv = ["mpirun", *as_root, "--oversubscribe", "--bind-to", layout.bind_to]
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "AITNE_RENDEZVOUS_DIR": folder,
        }
        program = [
            sys.executable,
            "-m",
            "runtime.benchmarks.allreduce_rank",
            folder,
            str(rounds),
            *ways,
        ]
        try:
            done = subprocess.run(
                [*argv, "-np", str(layout.ranks), *program],
                env=env,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"the ranks took over {_TIMEOUT_S:g} s") from None
    if done.returncode:
        raise BenchmarkError(f"a rank failed:\n{done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
