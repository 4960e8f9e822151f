"""Detection of the ranks for which others wait, by the reports of all ranks. Logic only.

Each rank reports every few seconds how long its main thread has been inside the training runtime
without any exchange. A rank without reports is stopped, or its interpreter is held.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NamedTuple, TypeAlias

Pending: TypeAlias = tuple[str, str, float, tuple[int, ...]]
"""Collective for which not all ranks are ready: name, kind, age in seconds, missing ranks."""

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = (os.path.dirname(os.__file__) + os.sep,)


class Beat(NamedTuple):
    """Last heartbeat of a rank."""

    at: float
    """Time of arrival, by ``time.monotonic()`` of the receiver."""
    waiting_s: float
    """Seconds that its main thread had waited then."""


class Late(NamedTuple):
    """Collective that does not progress."""

    ranks: tuple[int, ...]
    """Ranks that are waited for; none: all are present, and yet nothing progresses."""
    what: str
    """Description of what the ranks are waited for in."""
    waiting: tuple[int, ...]
    """Ranks that wait, as far as known."""
    age_s: float
    silent: frozenset[int] = frozenset()
    """Ranks that send no heartbeats."""


def late(
    beats: Mapping[int, Beat], pending: Sequence[Pending], now: float, lag_s: float
) -> Late | None:
    """Return the collective that has not progressed for ``lag_s`` seconds; None: there is none.

    ``beats`` has one entry for every rank that is alive.
    """
    silent = frozenset(rank for rank, beat in beats.items() if now - beat.at >= lag_s)
    waiting = {
        rank: beat.waiting_s + now - beat.at
        for rank, beat in beats.items()
        if rank not in silent and beat.waiting_s > 0 and beat.waiting_s + now - beat.at >= lag_s
    }
    old = [each for each in pending if each[2] >= lag_s and each[3]]
    if old:
        name, _kind, age_s, missing = max(old, key=lambda each: each[2])
        here = tuple(rank for rank in sorted(waiting) if rank not in missing)
        return Late(tuple(missing), name, here, age_s, silent)
    if not waiting:
        return None
    absent = silent or frozenset(beats) - frozenset(waiting)
    return Late(
        tuple(sorted(absent)),
        "an exchange",
        tuple(sorted(waiting)),
        max(waiting.values()),
        silent,
    )


def sentence(found: Late, nodes: Sequence[int]) -> str:
    """Return a sentence about the stall for users."""
    since = f"since {found.age_s:.0f} s"
    if not found.ranks:
        return (
            f"all ranks wait in {found.what} {since} and nobody is missing:"
            " a connection between them may be broken"
        )
    who = ", ".join(f"{rank} (node {nodes[rank]})" for rank in found.ranks[:8])
    if len(found.ranks) > 8:
        who += f" and {len(found.ranks) - 8} more"
    one = len(found.ranks) == 1
    waits = (
        f"; {_counted(found.waiting)} for it" if one else f"; {_counted(found.waiting)} for them"
    )
    said = [rank for rank in found.ranks if rank in found.silent]
    words = f"rank{'' if one else 's'} {who} {'is' if one else 'are'} late for {found.what} {since}"
    if found.waiting:
        words += waits
    if said:
        words += f"; {ranks(said)} {'does' if len(said) == 1 else 'do'} not answer"
    return words


def entry(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which the program entered the training runtime; None: it is not inside.

    From the innermost call outwards: PyTorch and the standard library may work for either; the
    first call of the program or the runtime decides.
    """
    found = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            found = frame
        elif found is not None or not _neutral(file):
            return found
        frame = frame.f_back
    return found


def ranks(numbers: Sequence[int]) -> str:
    """Return a list of ranks such as ``rank 3`` or ``ranks 0-2, 5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    listed = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"rank {listed}" if len(numbers) == 1 else f"ranks {listed}"


def _counted(waiting: Sequence[int]) -> str:
    return f"{ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'}"


def _neutral(file: str) -> bool:
    """Return whether a file belongs to PyTorch or the standard library, or is no file."""
    if f"{os.sep}torch{os.sep}" in file or file.startswith("<"):
        return True
    return file.startswith(_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in file
