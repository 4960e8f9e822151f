"""Interrupt collectives of the training runtime at random moments, many thousand times.

A KeyboardInterrupt, an exception of a signal handler or a SIGKILL ends a call of one rank, or of
several, in every kind of wait; then every rank must be told, and no value may be wrong:

    python -m tests.fault.interrupts --count 10000 --ranks 2
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fault.interrupted_ranks import HANG_S, RankReport, work
from tests.support.ranks import Outcome, Pool

TRANSPORTS: tuple[dict[str, str | None], ...] = (
    {"AITNE_TRANSPORT": "shm"},
    {"AITNE_TRANSPORT": "torch_pg"},
    {
        "AITNE_TRANSPORT": "shm",
        "AITNE_SHM_KERNEL": "off",
        "AITNE_GUARD_LAG_S": "30",
        "HOROVOD_TIMELINE": os.devnull,
    },
)
"""Environment variables of the ranks; the last ones with the threads that observe a run."""
EPISODES = 150
"""Episodes of one call of the pool, which end with the SIGKILL of a rank."""
_LONGEST_S = 1800.0


@dataclass
class Result:
    """Report on the calls of all ranks."""

    interrupts: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    values: int = 0
    wrong: list[str] = field(default_factory=list)
    unbroken: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    hangs: list[str] = field(default_factory=list)
    """Output of ranks that hung or failed."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether no value was wrong, every rank was told, and none hung."""
        return not self.wrong and not self.unbroken and not self.hangs

    def add(self, outcomes: Sequence[Outcome], kill: bool) -> None:
        """Add the reports of the ranks of one call; with ``kill`` one rank has none."""
        dead = [each for each in outcomes if each.died]
        before: list[RankReport] = []
        for each in outcomes:
            report = each.value
            if isinstance(report, RankReport):
                self._add(report)
                before = before or report.others
                if dead and "is gone" not in report.survived:
                    self.unbroken.append(f"rank {each.rank} after SIGKILL: {report.survived!r}")
            elif not (kill and dead == [each] and "Timeout (" not in each.output):
                self.hangs.append(f"rank {each.rank}: {each.error}\n{each.output[-6000:]}")
        for each in dead:
            if before:
                self._add(before[each.rank])
        self.kills += kill and len(dead) == 1

    def _add(self, report: RankReport) -> None:
        self.interrupts += report.interrupts
        self.values += report.values
        self.wrong += report.wrong
        self.unbroken += report.unbroken
        self.errors += report.errors

    def summary(self) -> str:
        """Describe the result in a few lines."""
        total = self.interrupts.total()
        lines = [
            f"{total} interrupts and {self.kills} kills in {self.seconds:.0f} s; {self.values} values, "
            f"{len(self.wrong)} wrong; {len(self.unbroken)} not told; {len(self.hangs)} hangs over {HANG_S:.0f} s",
            *(f"  {count:6} {name}" for name, count in sorted(self.interrupts.items())),
            *(f"  {count:6} errors: {words}" for words, count in self.errors.most_common()),
            *self.wrong[:20],
            *self.unbroken[:20],
            *self.hangs[:3],
        ]
        return "\n".join(lines)


def run(
    pool: Pool, *, count: int, ranks: int, seed: int, kill: bool = True, limit_s: float = _LONGEST_S
) -> Result:
    """Interrupt collectives of ``ranks`` ranks until ``count`` calls have been interrupted, the time
    is over, or something was wrong; return the result.
    """
    result = Result()
    began = time.monotonic()
    batch = 0
    while result.ok and result.interrupts.total() + result.kills < count:
        if time.monotonic() - began > limit_s:
            break
        left = count - result.interrupts.total() - result.kills
        outcomes = pool.outcomes(
            work,
            ranks,
            seed + batch,
            min(EPISODES, left),
            kill,
            environ={
                "HOROVOD_DYNAMIC_PROCESS_SETS": "1",
                "HOROVOD_FUSION_THRESHOLD": "8192",
                "HOROVOD_ELASTIC": "1",
                "AITNE_GUARD_LAG_S": "0",
                **TRANSPORTS[batch % len(TRANSPORTS)],
            },
            timeout_s=_LONGEST_S,
            grace_s=HANG_S + 10,
        )
        result.add(outcomes, kill)
        result.seconds = time.monotonic() - began
        batch += 1
        sys.stderr.write(f"{result.interrupts.total()} of {count}, {result.seconds:.0f} s\n")
    return result


def main() -> int:
    """Run the program; return 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="number of interrupts")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=_LONGEST_S, help="longest duration")
    arguments = parser.parse_args()
    pool = Pool()
    try:
        result = run(
            pool,
            count=arguments.count,
            ranks=arguments.ranks,
            seed=arguments.seed,
            limit_s=arguments.limit_s,
        )
    finally:
        pool.close()
    sys.stdout.write(f"{result.summary()}\n")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
