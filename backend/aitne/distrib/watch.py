"""Detection of the ranks for which others wait, by the reports of all ranks. Logic only.

Each rank reports every few seconds how long it has waited in a collective without any exchange, and
how long its main thread has waited for something else. A rank without reports is stopped, or its
interpreter is held.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from types import FrameType
from typing import NamedTuple, TypeAlias

Pending: TypeAlias = tuple[str, str, float, tuple[int, ...]]
"""Collective for which not all ranks are ready: name, kind, age in seconds, missing ranks."""

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TRANSPORTS = f"{_OURS}transport{os.sep}"
_TORCH_DISTRIBUTED = f"{os.sep}torch{os.sep}distributed{os.sep}"
_MOST_PLACES = 8
_LIBRARY = (os.path.dirname(os.__file__) + os.sep,)


class Heartbeat(NamedTuple):
    """Time of a rank's last heartbeat, and for how long and in what the rank was waiting then."""

    at: float
    """Time of arrival, by ``time.monotonic()`` of the receiver."""
    waiting_s: float
    """Seconds that it had waited in a collective then."""
    idle_s: float = 0.0
    """Seconds that its main thread had waited then for something else than a collective, such as a
    lock, without any computation in the process."""
    place: str = ""
    """Where its main thread was, such as ``load (data.py:12)``."""


class IdleRank(NamedTuple):
    """A rank whose main thread waits for something else than a collective."""

    rank: int
    idle_s: float
    place: str


class StalledCollective(NamedTuple):
    """A collective that does not progress: the ranks that wait in it, and the ranks that are
    missing. Or a run without progress, in which no rank is in a collective.
    """

    ranks: tuple[int, ...]
    """Ranks that are waited for; none: all are present, and yet nothing progresses."""
    what: str
    """Description of the operation in which the ranks are waited for; empty: all ranks wait, and
    none of them in a collective."""
    waiting: tuple[int, ...]
    """Ranks that wait, as far as known."""
    age_s: float
    silent: frozenset[int] = frozenset()
    """Ranks that send no heartbeats."""
    idle: tuple[IdleRank, ...] = ()
    """Those of the missing ranks that wait for something else."""


def late(
    beats: Mapping[int, Heartbeat], pending: Sequence[Pending], now: float, lag_s: float
) -> StalledCollective | None:
    """Return the collective that has not progressed for ``lag_s`` seconds; None if there is none.

    If no rank is in a collective, a stall is that every rank waits: while one of them computes, the
    others may have reasons to wait.

    ``beats`` has the last heartbeat of every rank that is alive, ``pending`` the incomplete
    requests.
    """
    silent = frozenset(rank for rank, beat in beats.items() if now - beat.at >= lag_s)
    waiting = {
        rank: beat.waiting_s + now - beat.at
        for rank, beat in beats.items()
        if rank not in silent and beat.waiting_s > 0 and beat.waiting_s + now - beat.at >= lag_s
    }
    idle = tuple(
        IdleRank(rank, beat.idle_s + now - beat.at, beat.place)
        for rank, beat in sorted(beats.items())
        if rank not in silent and beat.idle_s > 0 and beat.idle_s + now - beat.at >= lag_s / 2
    )
    old = [collective for collective in pending if collective[2] >= lag_s and collective[3]]
    if old:
        name, _kind, age_s, missing = max(old, key=lambda collective: collective[2])
        here = tuple(rank for rank in sorted(waiting) if rank not in missing)
        return StalledCollective(tuple(missing), name, here, age_s, silent, _of(missing, idle))
    if waiting:
        absent = sorted(silent or frozenset(beats) - frozenset(waiting))
        return StalledCollective(
            tuple(absent),
            "an exchange",
            tuple(sorted(waiting)),
            max(waiting.values()),
            silent,
            _of(absent, idle),
        )
    age_s = min((each.idle_s for each in idle), default=0.0)
    if age_s >= lag_s and len(idle) + len(silent) == len(beats):
        return StalledCollective(tuple(sorted(silent)), "", (), age_s, silent, idle)
    return None


def sentence(stall: StalledCollective, nodes: Sequence[int]) -> str:
    """Return a sentence about the stall for users."""
    since = f"since {stall.age_s:.0f} s"
    if not stall.what:
        return f"no rank makes progress {since}: {_causes(stall)}"
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
    words = f"rank{'' if one else 's'} {who} {'is' if one else 'are'} late for {stall.what} {since}"
    if stall.waiting:
        words += waits
    causes = _causes(stall)
    return f"{words}; {causes}" if causes else words


def _causes(stall: StalledCollective) -> str:
    """Return what the missing ranks wait for, and which of them do not answer."""
    places: dict[str, list[IdleRank]] = {}
    for each in stall.idle:
        places.setdefault(each.place, []).append(each)
    parts = [
        f"{_counted([each.rank for each in at])} in {place} since {max(each.idle_s for each in at):.0f} s"
        for place, at in list(places.items())[:_MOST_PLACES]
    ]
    if len(places) > _MOST_PLACES:
        parts.append(f"others in {len(places) - _MOST_PLACES} more places")
    silent = [rank for rank in stall.ranks if rank in stall.silent]
    if silent:
        parts.append(f"{ranks(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
    return "; ".join(parts)


def _of(numbers: Collection[int], idle: Sequence[IdleRank]) -> tuple[IdleRank, ...]:
    return tuple(each for each in idle if each.rank in numbers)


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


def in_transport(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which a transport was called; None if none was: a thread of the runtime
    waits outside of them for work.
    """
    called = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(_TRANSPORTS):
            called = frame
        frame = frame.f_back
    return called


def in_torch_collective(frame: FrameType | None) -> bool:
    """Return whether the innermost frame is one of ``torch.distributed``, which waits there."""
    return frame is not None and _TORCH_DISTRIBUTED in frame.f_code.co_filename


def program(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Return the innermost frame of the program's code, and its description for users, with the
    function of PyTorch or the standard library that it called.

    Reads no source files, because the file system may be what the program waits for.
    """
    called = ""
    while frame is not None and frame.f_back is not None and _neutral(frame.f_code.co_filename):
        if frame.f_code.co_name != "wrapper":  # a decorator's
            called = frame.f_code.co_qualname
        frame = frame.f_back
    if frame is None:
        return None, ""
    code = frame.f_code
    where = f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
    return frame, f"{called}, called by {where}" if called else where


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
