"""Search for the fastest bucket size during the first training steps, enabled by
``HOROVOD_AUTOTUNE=1``.

Horovod fits a model of cycle time and fusion threshold. Here the buckets are fixed once, so only
their size is tuned: each of six sizes is measured in three samples of
``HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE`` (default 10) steps, the first of which is discarded, after
``HOROVOD_AUTOTUNE_WARMUP_SAMPLES`` (default 3) samples at the beginning. With the defaults the
search ends after 210 steps. A size set by ``HOROVOD_FUSION_THRESHOLD`` is not changed.
``HOROVOD_AUTOTUNE_LOG`` names a file that rank 0 writes: one line for each sample, comma-separated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

CANDIDATES = (1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20)
SAMPLES = 2
"""Number of samples of each size that count. The fastest of them is used, because disturbances only
make steps longer."""


class Autotune:
    """Search for the bucket size with the shortest steps. It tries each candidate for some steps;
    all ranks use the same size in each step, because the size depends only on the number of steps
    so far.

    Args:
        steps: number of steps in each sample.
        warmup: number of samples to discard at the beginning.
        log: file that rank 0 writes; None for no file.
        candidates: bucket sizes in bytes, measured in this order.
    """

    def __init__(
        self, steps: int, warmup: int, log: Path | None, candidates: Sequence[int] = CANDIDATES
    ) -> None:
        if steps < 1 or warmup < 0 or not candidates:
            raise ValueError("autotuning needs at least one step per sample and one size")
        self._steps = steps
        self._candidates = tuple(candidates)
        # What is tried, sample after sample, and whether the sample counts.
        self._schedule: list[tuple[int, bool]] = [(0, False)] * warmup
        for index in range(len(candidates)):
            self._schedule += [(index, False)] + [(index, True)] * SAMPLES
        self._at = 0
        self._left = steps
        self._seconds = 0.0
        self.best = [float("inf")] * len(candidates)
        """Shortest measured seconds per step for each candidate size on this rank; infinite if not
        measured."""
        self._log = log
        if log is not None:
            log.write_text("sample,bytes,seconds_per_step,counts\n", encoding="utf-8")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], rank: int) -> Autotune | None:
        """Return a new search with the settings in ``environ``; None if ``HOROVOD_AUTOTUNE`` is not
        enabled, or ``HOROVOD_FUSION_THRESHOLD`` sets the bucket size.

        Raises:
            ValueError: a variable is not a number.
        """
        enabled = environ.get("HOROVOD_AUTOTUNE", "0").lower() in ("1", "true")
        if not enabled or environ.get("HOROVOD_FUSION_THRESHOLD"):
            return None
        log = environ.get("HOROVOD_AUTOTUNE_LOG")
        return cls(
            int(environ.get("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "10")),
            int(environ.get("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "3")),
            Path(log) if log and rank == 0 else None,
        )

    @property
    def cap(self) -> int:
        """Return the bucket size to use now, in bytes."""
        return self._candidates[self._schedule[min(self._at, len(self._schedule) - 1)][0]]

    @property
    def tried_all(self) -> bool:
        """Return whether all sizes have been measured, so that ``choose_cap`` must be called next."""
        return self._at >= len(self._schedule)

    def record_step(self, seconds: float) -> bool:
        """Record the duration of a step on this rank in seconds; return whether the bucket size to
        use (``cap``) has changed.
        """
        self._seconds += seconds
        self._left -= 1
        if self._left:
            return False
        before = self.cap
        index, counts = self._schedule[self._at]
        mean = self._seconds / self._steps
        if counts:
            self.best[index] = min(self.best[index], mean)
        self._write_log_line(f"{self._at},{self._candidates[index]},{mean:.9f},{int(counts)}")
        self._at += 1
        self._left, self._seconds = self._steps, 0.0
        return self.cap != before

    def choose_cap(self, best_of_ranks: Sequence[Sequence[float]]) -> int:
        """Return the bucket size for which the slowest rank's step was shortest, and write it to
        the log.

        Args:
            best_of_ranks: the attribute ``best`` of every rank.
        """
        slowest = [
            max((seconds for seconds in column if seconds != float("inf")), default=float("inf"))
            for column in zip(*best_of_ranks, strict=True)
        ]
        index = min(range(len(slowest)), key=slowest.__getitem__)
        self._write_log_line(f"chosen,{self._candidates[index]},{slowest[index]:.9f},1")
        return self._candidates[index]

    def _write_log_line(self, line: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
