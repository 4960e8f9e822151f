"""GPU-hours of a day of notebooks with rank groups, compared with one allocation for each session.

The day is a trace that is generated here, the same in every run, and replayed by the rules of the two ways; no platform
runs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from aitne.core.models.session_ranks_request import DEFAULT_IDLE_S
from benchmarks.figures import Figure, Row
from benchmarks.stats import Estimate

NAME = "notebook_day"
USERS = 200
MOST_IDLE = 0.2
"""Idle GPU-hours with attached ranks, over those of one allocation for each session."""
_SEED = 20_260
_HOUR_S = 3_600.0
_READY_S = 10.0
"""Seconds from the allocation of ranks until they execute the first cell."""
_RELEASED = 0.3
"""The share of the bursts after which the user releases the ranks, a minute after the last cell."""


@dataclass(frozen=True, slots=True)
class Session:
    """One user's session: its length, its GPUs, and when cells run on them, in order."""

    length_s: float
    gpus: int
    cells: Sequence[tuple[float, float]]
    """Begin and end of each cell on GPUs, in seconds from the start of the session."""
    released_s: Sequence[float]
    """Times at which the user releases the ranks by hand."""


def measure(*, quick: bool) -> Figure:
    """Replay the day in both ways; a quick measurement is the same, as it takes no time."""
    del quick
    day = trace(USERS)
    busy = sum(each.gpus * _busy_s(each) for each in day) / _HOUR_S
    held = sum(each.gpus * each.length_s for each in day) / _HOUR_S
    attached = sum(each.gpus * attached_s(each, DEFAULT_IDLE_S) for each in day) / _HOUR_S
    idle = (attached - busy) / (held - busy)
    return Figure(
        NAME,
        "A day of notebooks",
        [
            Row("idle GPU-hours, attached over one allocation", "x", _exact(idle), MOST_IDLE),
            Row("allocated GPU-hours, attached over one allocation", "x", _exact(attached / held)),
            Row("allocated GPU-hours, one allocation for each session", "h", _exact(held)),
            Row("allocated GPU-hours, attached and released", "h", _exact(attached)),
            Row("GPU-hours in which cells run", "h", _exact(busy)),
        ],
        [
            f"A generated trace, not a recorded one: {USERS} sessions of 6 to 10 hours with 1, 2, 4 or 8 GPUs, in each of "
            "which the user works on GPUs in 2 to 5 bursts and otherwise writes, reads or is away. A burst has 2 to 8 cells "
            "of 5 minutes (median; log-normal, sigma 0.8) with pauses of 2 minutes (median; sigma 0.7) between them.",
            f"Attached: ranks are allocated {_READY_S:.0f} s before the first cell that needs them, and released after "
            f"{DEFAULT_IDLE_S // 60} minutes without a cell (the default of `--idle`), after {_RELEASED:.0%} of the bursts "
            "by `%ranks stop` a minute after the last cell, and at the end of the session. Ranks never wait in the queue.",
        ],
    )


def trace(users: int) -> list[Session]:
    """Generate the sessions of a day, one for each user; the same in every run."""
    draw = random.Random(_SEED)
    return [_session(draw) for _ in range(users)]


def attached_s(session: Session, idle_s: float) -> float:
    """Return the seconds for which ranks are allocated to a session if they are released after
    ``idle_s`` seconds without a cell, or by hand."""
    total, began, ended = 0.0, None, 0.0
    for begin, end in session.cells:
        if began is not None and (release := _release_s(session, ended, idle_s)) < begin - _READY_S:
            total, began = total + release - began, None
        if began is None:
            began = max(0.0, begin - _READY_S)
        ended = end
    return total if began is None else total + _release_s(session, ended, idle_s) - began


def _release_s(session: Session, ended: float, idle_s: float) -> float:
    """Return when the ranks are released whose last cell has ended at ``ended``."""
    by_hand = (at for at in session.released_s if at >= ended)
    return min(ended + idle_s, session.length_s, *by_hand)


def _session(draw: random.Random) -> Session:
    length = draw.uniform(6, 10) * _HOUR_S
    bursts = draw.randint(2, 5)
    cells: list[tuple[float, float]] = []
    released: list[float] = []
    at = 0.0
    for number in range(bursts):
        # Somewhere in its part of the day, unless the burst before still runs.
        at = max(at, length * (number + draw.uniform(0.05, 0.6)) / bursts)
        for _ in range(draw.randint(2, 8)):
            end = at + draw.lognormvariate(5.704, 0.8)  # e^5.704 s = 5 minutes
            if end > length:
                return Session(length, _gpus(draw), cells, released)
            cells.append((at, end))
            at = end + draw.lognormvariate(4.787, 0.7)  # e^4.787 s = 2 minutes
        if draw.random() < _RELEASED:
            released.append(cells[-1][1] + 60)
            at = max(at, released[-1])
    return Session(length, _gpus(draw), cells, released)


def _gpus(draw: random.Random) -> int:
    return draw.choices((1, 2, 4, 8), (40, 30, 20, 10))[0]


def _busy_s(session: Session) -> float:
    return sum(end - begin for begin, end in session.cells)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
