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


class Heartbeat(NamedTuple):
    """Time of a rank's last heartbeat, and how long the rank was waiting then."""

    at: float
    """Time of arrival, by ``time.monotonic()`` of the receiver."""
    waiting_s: float
    """Seconds that its main thread had waited then."""


class StalledCollective(NamedTuple):
    """A collective that does not progress: the ranks that wait in it, and the ranks that are
    missing.
    """

    ranks: tuple[int, ...]
    """Ranks that are waited for; none: all are present, and yet nothing progresses."""
    what: str
    """Description of the operation in which the ranks are waited for."""
    waiting: tuple[int, ...]
    """Ranks that wait, as far as known."""
    age_s: float
    silent: frozenset[int] = frozenset()
    """Ranks that send no heartbeats."""


def late(
    beats: Mapping[int, Heartbeat], pending: Sequence[Pending], now: float, lag_s: float
) -> StalledCollective | None:
    """Return the collective that has not progressed for ``lag_s`` seconds; None if there is none.

    ``beats`` has the last heartbeat of every rank that is alive, ``pending`` the incomplete
    requests.
    """
    silent = frozenset(rank for rank, beat in beats.items() if now - beat.at >= lag_s)
    waiting = {
        rank: beat.waiting_s + now - beat.at
        for rank, beat in beats.items()
        if rank not in silent and beat.waiting_s > 0 and beat.waiting_s + now - beat.at >= lag_s
    }
    old = [collective for collective in pending if collective[2] >= lag_s and collective[3]]
    if old:
        name, _kind, age_s, missing = max(old, key=lambda collective: collective[2])
        here = tuple(rank for rank in sorted(waiting) if rank not in missing)
        return StalledCollective(tuple(missing), name, here, age_s, silent)
    if not waiting:
        return None
    absent = silent or frozenset(beats) - frozenset(waiting)
    return StalledCollective(
        tuple(sorted(absent)),
        "an exchange",
        tuple(sorted(waiting)),
        max(waiting.values()),
        silent,
    )


def sentence(stall: StalledCollective, nodes: Sequence[int]) -> str:
    """Return a sentence about the stall for users."""
    since = f"since {stall.age_s:.0f} s"
    if not stall.ranks:
        return (
            f"all ranks wait in {stall.what} {since} and no rank is missing:"
            " a connection between them may be broken"
        )
    who = ", ".join(f"{rank} (node {nodes[rank]})" for rank in stall.ranks[:8])
    if len(stall.ranks) > 8:
        who += f" and {len(stall.ranks) - 8} more"
    one = len(stall.ranks) == 1
    waits = (
        f"; {_counted(stall.waiting)} for it" if one else f"; {_counted(stall.waiting)} for them"
    )
    silent = [rank for rank in stall.ranks if rank in stall.silent]
    words = f"rank{'' if one else 's'} {who} {'is' if one else 'are'} late for {stall.what} {since}"
    if stall.waiting:
        words += waits
    if silent:
        words += f"; {ranks(silent)} {'does' if len(silent) == 1 else 'do'} not answer"
    return words


def entry(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which the program's code called the training runtime; None if it is
    outside of the runtime.

    The frames are examined from the innermost outwards. PyTorch and the standard library may work
    for either; the first frame of the program or the runtime decides.
    """
    entry_frame = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            entry_frame = frame
        elif entry_frame is not None or not _neutral(file):
            return entry_frame
        frame = frame.f_back
    return entry_frame


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
