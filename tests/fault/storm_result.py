"""The counts of a storm and the outcome of its jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from aitne.core.jobs.states import JobState
from tests.fault.hangs import HangCounts


@dataclass(slots=True)
class Result:
    """Counts of what a storm did and of what became of its jobs."""

    jobs: int
    arrays: int
    promised_kills: int
    promised_hangs: int
    kills: Counter[str] = field(default_factory=Counter)
    hangs: HangCounts = field(default_factory=HangCounts)
    recovered: bool = False
    """True when the platform was ready at the end, with all its processes."""
    resumed: int = 0
    """The number of times that a node was resumed after Slurm had drained it."""
    retried_requests: int = 0
    submit_s: float = 0.0
    whole_s: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    lost: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    """Programs that ran and belong to no job that a client submitted."""

    @property
    def ok(self) -> bool:
        """Return whether each job ran once, all faults happened, and the platform recovered."""
        done = self.states == Counter({JobState.COMPLETED.value: self.jobs})
        faults = (self.kills.total(), self.hangs.processes.total())
        complete = faults == (self.promised_kills, self.promised_hangs) and self.recovered
        return done and complete and not (self.lost or self.twice or self.strange)

    def summary(self) -> str:
        """Return the result in sentences."""
        kills = ", ".join(f"{number} of {name}" for name, number in sorted(self.kills.items()))
        states = ", ".join(f"{number} {state}" for state, number in sorted(self.states.items()))
        attempts = ", ".join(
            f"{n} in attempt {which}" for which, n in sorted(self.attempts.items())
        )
        return (
            f"{self.jobs} jobs, among them the tasks of {self.arrays} arrays; kill -9: {self.kills.total()} ({kills}); "
            f"{self.resumed} times a node was resumed\n"
            f"{self.hangs.summary()}\n"
            f"accepted in {self.submit_s:.0f} s ({self.jobs / max(self.submit_s, 0.1):.0f}/s, "
            f"{self.retried_requests} requests sent again), all ended after {self.whole_s:.0f} s\n"
            f"the platform says: {states} ({attempts})\n"
            f"the file says: {len(self.lost)} lost, {len(self.twice)} run twice, "
            f"{len(self.strange)} that nobody asked for\n"
            f"promised: {self.promised_kills} kills, {self.promised_hangs} hangs; at the end "
            f"the platform {'has' if self.recovered else 'has not'} recovered"
        )
