"""Communication profile of a cell: how much of its time the collectives of ``aitne_train`` took.

A rank measures the difference between the totals before and after the cell, and sends it with its
reply; the kernel shows one line for all ranks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aitne_train.byte_size_formatting import describe_bytes

_MOST_OPERATIONS = 5


class CellCommunication:
    """Collectives of this rank while it executes one cell. ``begin_cell`` and ``end_cell`` enclose the
    cell."""

    def begin_cell(self) -> None:
        """Store the totals before the cell."""
        self._run, self._before = _read_totals()
        self._began = time.monotonic()

    def end_cell(self) -> dict[str, Any] | None:
        """Return the duration of the cell in seconds, and number, bytes and seconds of its
        collectives by operation; None if it had none."""
        seconds = time.monotonic() - self._began
        run, totals = _read_totals()
        before = self._before if run == self._run else {}
        used = {
            name: [now - then for now, then in zip(after, before.get(name, (0, 0, 0)), strict=True)]
            for name, after in totals.items()
        }
        operations = {name: numbers for name, numbers in used.items() if numbers[0]}
        return {"seconds": seconds, "operations": operations} if operations else None


def _read_totals() -> tuple[float | None, Mapping[str, tuple[int, int, float]]]:
    """Return when ``aitne_train`` was initialized, and its totals of calls, bytes and seconds by
    operation. Return None and no totals if it is not in use.

    The package is not imported for this, because the import is slow and needs torch.
    """
    profiling = sys.modules.get("aitne_train.profiler")
    found = None if profiling is None else profiling.total_by_operation()
    return (None, {}) if found is None else found


def describe_communication(profiles: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a line that summarizes the communication of a cell.

    Shares and seconds are means over the ranks. ``profiles`` are the results of
    ``CellCommunication.end_cell`` on the ranks. Return None if no profile has a duration.
    """
    profiles = [profile for profile in profiles if profile["seconds"] > 0]
    if not profiles:
        return None
    count = len(profiles)
    shares: dict[str, float] = {}
    for profile in profiles:
        for name, (_, _, seconds) in profile["operations"].items():
            shares[name] = shares.get(name, 0.0) + seconds / profile["seconds"] / count
    most = sorted(shares, key=lambda name: -shares[name])
    parts = []
    for name in most[:_MOST_OPERATIONS]:
        numbers = [profile["operations"].get(name, (0, 0, 0.0)) for profile in profiles]
        times, size = max(each[0] for each in numbers), max(each[1] for each in numbers)
        parts.append(f"{name} {shares[name]:.0%} ({times} x, {describe_bytes(size)})")
    rest = len(most) - len(parts)
    more = f", {rest} more" if rest > 0 else ""
    seconds = sum(profile["seconds"] for profile in profiles) / count
    return f"Communication: {sum(shares.values()):.0%} of {seconds:.1f} s: {', '.join(parts)}{more}"
