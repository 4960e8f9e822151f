"""The parts of `train_step` that one CUDA device can measure.

These are the overhead of the hooks at one rank, and products with a short side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import torch
from runtime.benchmarks.train_step_rank import way

from benchmarks.figures import Row
from benchmarks.stats import median, median_ratio

WIDTH = 4096
HEIGHTS = (1, 4, 16, 64, 256, 1024)
NOT_HERE = "No CUDA device here: nothing was measured on one."


def rows(pairs: int, notes: list[str]) -> Sequence[Row]:
    """Return the rows; none, and a further note, without a CUDA device."""
    if not torch.cuda.is_available():
        notes.append(NOT_HERE)
        return []
    # Elastic runs have their hooks at one rank too, as there may be more later.
    os.environ["HOROVOD_ELASTIC"] = "1"
    ours, plain = way("ours", "mlp", "cuda"), way("plain", "mlp", "cuda")
    _timed(ours, 50), _timed(plain, 50)
    taken = []
    for number in range(pairs):
        first, second = (ours, plain) if number % 2 else (plain, ours)
        one, two = _timed(first, 200), _timed(second, 200)
        taken.append((one, two) if number % 2 else (two, one))
    found = [Row("small MLP on one GPU, hooks over none", "x", median_ratio(taken))]
    weight = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    for height in HEIGHTS:
        left = torch.randn(height, WIDTH, device="cuda", dtype=torch.bfloat16)
        times = [_timed(lambda left=left: torch.mm(left, weight), 100) for _ in range(pairs)]
        done = [2 * height * WIDTH * WIDTH / each / 1e12 for each in times]
        found.append(Row(f"bf16 product, {height} x {WIDTH} x {WIDTH}", "TFLOP/s", median(done)))
    return found


def _timed(act: Callable[[], object], times: int) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        act()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times
