"""Pure functions that find the ranks for which others wait, from the reports of all ranks.

Each rank reports every few seconds how long it has waited in a collective without exchanging data,
and how long its main thread has waited for something else. If a rank sends no reports, its process
is stopped, or a library holds its interpreter's lock (GIL).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from types import FrameType
from typing import NamedTuple, TypeAlias

Pending: TypeAlias = tuple[str, str, float, tuple[int, ...]]
"""Collective that some ranks have not submitted: name, kind, age in seconds, those ranks."""

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TRANSPORTS = f"{_OURS}transport{os.sep}"
_TORCH_DISTRIBUTED = f"{os.sep}torch{os.sep}distributed{os.sep}"
_MOST_PLACES = 8
_STARVED_SHARE = 0.25
"""Share of the time without a processor from which a rank is said to wait for one."""
_LIBRARY = (os.path.dirname(os.__file__) + os.sep,)


class Heartbeat(NamedTuple):
    """Time of a rank's last report, and how long and in what the rank was waiting then."""

    at: float
    """Time at which the report arrived, by ``time.monotonic()`` of the receiving rank."""
    waiting_s: float
    """Seconds for which the rank had waited in a collective at that time."""
    idle_s: float = 0.0
    """Seconds for which the main thread had waited at that time for something other than a
    collective, such as a lock, while the process did not compute."""
    place: str = ""
    """Place in the program where the main thread was, such as ``load (data.py:12)``."""
    starved_s: float = 0.0
    """Seconds for which the main thread had been ready to run but had no processor, since its
    start."""
    starved_share: float = 0.0
    """The same in the seconds before the report, as a fraction of them."""


class BusyRank(NamedTuple):
    """A rank that answers and whose main thread does not wait."""

    rank: int
    place: str
    starved_share: float


class IdleRank(NamedTuple):
    """A rank whose main thread waits for something other than a collective."""

    rank: int
    idle_s: float
    place: str


class StalledCollective(NamedTuple):
    """A collective without progress: the ranks that wait in it, and the ranks for which they wait.
    Also a run without progress in which no rank is in a collective.
    """

    ranks: tuple[int, ...]
    """Ranks for which the others wait; empty if all ranks are in the collective and it still makes
    no progress."""
    what: str
    """Description of the collective in which ranks wait; empty if every rank waits for something
    other than a collective."""
    waiting: tuple[int, ...]
    """Ranks known to wait in the collective."""
    age_s: float
    silent: frozenset[int] = frozenset()
    """Ranks that send no reports."""
    idle: tuple[IdleRank, ...] = ()
    """Missing ranks whose main thread waits for something other than a collective."""
    busy: tuple[BusyRank, ...] = ()
    """Missing ranks that do not wait and whose place in the program is known."""


def find_stall(
    beats: Mapping[int, Heartbeat], pending: Sequence[Pending], now: float, lag_s: float
) -> StalledCollective | None:
    """Return the collective that has made no progress for ``lag_s`` seconds; None if there is none.

    If no rank is in a collective, the run counts as stalled only if every rank waits; while one of
    them computes, the others may have reasons to wait.

    ``beats`` contains the last report of every rank that is alive, ``pending`` the collectives that
    some ranks have not submitted; ``now`` is ``time.monotonic()``.
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
        return StalledCollective(
            tuple(missing),
            name,
            here,
            age_s,
            silent,
            *_sort_missing_ranks(missing, beats, silent, idle),
        )
    if waiting:
        absent = sorted(silent or frozenset(beats) - frozenset(waiting))
        return StalledCollective(
            tuple(absent),
            "an exchange",
            tuple(sorted(waiting)),
            max(waiting.values()),
            silent,
            *_sort_missing_ranks(absent, beats, silent, idle),
        )
    age_s = min((each.idle_s for each in idle), default=0.0)
    if age_s >= lag_s and len(idle) + len(silent) == len(beats):
        return StalledCollective(tuple(sorted(silent)), "", (), age_s, silent, idle)
    return None


def describe_stall(stall: StalledCollective, nodes: Sequence[int]) -> str:
    """Return a sentence for users that describes the stall. ``nodes`` contains the number of each
    rank's node.
    """
    since = f"since {stall.age_s:.0f} s"
    if not stall.what:
        return f"no rank makes progress {since}: {_describe_causes(stall)}"
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
        f"; {_format_waiting(stall.waiting)} for it"
        if one
        else f"; {_format_waiting(stall.waiting)} for them"
    )
    words = f"rank{'' if one else 's'} {who} {'is' if one else 'are'} late for {stall.what} {since}"
    if stall.waiting:
        words += waits
    causes = _describe_causes(stall)
    return f"{words}; {causes}" if causes else words


class Suspicion:
    """A stall that was found for the first time, until a second look confirms it.

    A rank that computes, or is ready to run but gets no processor, may only be slow. Such a rank is
    confirmed to be late after further ``lag_s`` seconds, in which the time without a processor does
    not count.

    Args:
        beats: the last report of every rank at the first look.
        now: time of the first look, by ``time.monotonic()``.
    """

    def __init__(self, beats: Mapping[int, Heartbeat], now: float) -> None:
        self._at = now
        self._starved_s = {rank: beat.starved_s for rank, beat in beats.items()}

    def confirm(
        self,
        stall: StalledCollective,
        beats: Mapping[int, Heartbeat],
        now: float,
        lag_s: float,
    ) -> bool:
        """Return whether a later look, which has found ``stall``, confirms that ranks are stalled.

        ``beats``, ``now`` and ``lag_s`` are as in ``find_stall``.
        """
        idle = {each.rank for each in stall.idle}
        return not stall.ranks or any(
            rank in stall.silent
            or rank in idle
            or self._measure_own_time_s(rank, beats, now) >= lag_s
            for rank in stall.ranks
        )

    def _measure_own_time_s(self, rank: int, beats: Mapping[int, Heartbeat], now: float) -> float:
        """Return the seconds since the first look for which a rank was not waiting for a processor;
        infinite if it waits in a collective, or no longer reports.
        """
        beat = beats.get(rank)
        if beat is None or beat.waiting_s > 0:
            return float("inf")
        return now - self._at - (beat.starved_s - self._starved_s.get(rank, 0.0))


def _describe_causes(stall: StalledCollective) -> str:
    """Return a description of what the missing ranks wait for or do, and of which of them send no
    reports.
    """
    waits: dict[str, list[IdleRank]] = {}
    for each in stall.idle:
        waits.setdefault(each.place, []).append(each)
    work: dict[str, list[BusyRank]] = {}
    for one in stall.busy:
        work.setdefault(one.place, []).append(one)
    parts = [
        f"{_format_waiting([each.rank for each in at])} in {place} since {max(each.idle_s for each in at):.0f} s"
        for place, at in waits.items()
    ] + [_describe_busy(place, at) for place, at in work.items()]
    if len(parts) > _MOST_PLACES:
        parts[_MOST_PLACES:] = [f"others in {len(parts) - _MOST_PLACES} more places"]
    silent = [rank for rank in stall.ranks if rank in stall.silent]
    if silent:
        parts.append(f"{format_ranks(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
    return "; ".join(parts)


def _describe_busy(place: str, at: Sequence[BusyRank]) -> str:
    words = (
        f"{format_ranks([each.rank for each in at])} {'is' if len(at) == 1 else 'are'} in {place}"
    )
    share = max(each.starved_share for each in at)
    if share < _STARVED_SHARE:
        return words
    verb = "waits" if len(at) == 1 else "wait"
    return f"{words} and {verb} for a processor {share:.0%} of the time".replace("%", " %")


def _sort_missing_ranks(
    missing: Collection[int],
    beats: Mapping[int, Heartbeat],
    silent: Collection[int],
    idle: Sequence[IdleRank],
) -> tuple[tuple[IdleRank, ...], tuple[BusyRank, ...]]:
    """Return those of the missing ranks that wait for something other than a collective, and those
    that do not wait.
    """
    waiting = tuple(each for each in idle if each.rank in missing)
    others = {*silent, *(each.rank for each in waiting)}
    busy = tuple(
        BusyRank(rank, beats[rank].place, beats[rank].starved_share)
        for rank in sorted(missing)
        if rank in beats and rank not in others and beats[rank].waiting_s == 0 and beats[rank].place
    )
    return waiting, busy


def find_runtime_entry(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the training runtime that the program's code has called; None if the
    thread is not in the runtime.

    Frames are examined from the innermost outwards, up to the first that belongs to the program or
    the runtime; frames of PyTorch and the standard library may be called by either.
    """
    entry_frame = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            entry_frame = frame
        elif entry_frame is not None or not _is_neutral_file(file):
            return entry_frame
        frame = frame.f_back
    return entry_frame


def find_transport_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which a method of a transport was called; None if there is none, as for a
    thread of the runtime that waits for work.
    """
    called = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(_TRANSPORTS):
            called = frame
        frame = frame.f_back
    return called


def is_in_torch_collective(frame: FrameType | None) -> bool:
    """Return whether the innermost frame belongs to ``torch.distributed``, which means that the
    thread waits in one of its collectives.
    """
    return frame is not None and _TORCH_DISTRIBUTED in frame.f_code.co_filename


def find_program_frame(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Return the innermost frame of the program's code, and a description of it for users, which
    includes the function of PyTorch or the standard library that it has called.

    Reads no source files, because the program may be waiting for the file system.
    """
    called = ""
    while (
        frame is not None
        and frame.f_back is not None
        and _is_neutral_file(frame.f_code.co_filename)
    ):
        if frame.f_code.co_name != "wrapper":  # a decorator's
            called = frame.f_code.co_qualname
        frame = frame.f_back
    if frame is None:
        return None, ""
    code = frame.f_code
    where = f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
    return frame, f"{called}, called by {where}" if called else where


def format_ranks(numbers: Sequence[int]) -> str:
    """Return the ranks as text, such as ``rank 3`` or ``ranks 0-2, 5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    listed = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"rank {listed}" if len(numbers) == 1 else f"ranks {listed}"


def _format_waiting(waiting: Sequence[int]) -> str:
    return f"{format_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'}"


def _is_neutral_file(file: str) -> bool:
    """Return whether a source file belongs to PyTorch or the standard library, or is not a real
    file.
    """
    if f"{os.sep}torch{os.sep}" in file or file.startswith("<"):
        return True
    return file.startswith(_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in file
