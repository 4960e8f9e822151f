"""Profile of a run as one document, computed from the summaries of all ranks.

The document, ``profile.json``, is a JSON object of at most ``LIMIT_BYTES``. A *share* is a fraction
from 0 to 1.

``schema``          1; readers must refuse another number. Keys may be added, but none is changed.
``written_at``      time of writing, RFC 3339 in UTC.
``final``           true if the run has ended and this is the last version.
``size``            number of ranks.
``steps``           number of training steps of the slowest rank; 0 if the program marks no steps.
``step_s``          mean duration of a step in seconds, or null.
``elapsed_s``       seconds from the first record of a rank to its last, the maximum of the ranks.
``communicating``   share of the steps in which a collective ran, mean of the ranks, or null.
``blocked``         share of the steps in which a collective blocked the training thread, or null.
``overlap``         share of communication that overlapped with computation; null if not known.
``straggler``       null, or ``{rank, node, behind_s, share}``: the rank for which the others wait. In each
                    step it computes ``behind_s`` seconds longer than the median of the others, which is
                    ``share`` of the step.
``table``           list of ``{op, from_bytes, to_bytes, count, bytes, time_s, fastest_s, slowest_s,
                    bus_bytes_per_s}``, one for each operation and range of message sizes that occurred.
                    ``count`` and ``bytes`` are the maximum of the ranks, ``time_s`` is the mean of the ranks
                    that took part; ``to_bytes`` of the last range is null.
``ranks``           list of ``{rank, node, steps, step_s, communicating, blocked, overlap, own_s, records,
                    dropped}``, by rank; ``own_s`` is the duration of a step without waits for other ranks.
                    If there are more than ``MOST_RANKS``, the fastest ranks are omitted.
``history``         list of ``{t_s, steps, step_s, communicating, blocked}`` over time for a chart, at most
                    ``MOST_POINTS``; ``t_s`` is in seconds since the start of the recording.

Where collectives are queued on GPUs, only the time to queue them is recorded: ``communicating``, ``blocked``,
``overlap``, ``own_s`` and ``straggler`` are then null, and ``bus_bytes_per_s`` is 0.

Bus bandwidth is defined as in NVIDIA's nccl-tests (doc/PERFORMANCE.md there): bytes divided by time,
multiplied by the transfers that any algorithm needs for each byte, such as 2 (n - 1) / n for an
allreduce among n ranks. It is the mean over all collectives, including their waits for late ranks.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aitne_train.collective_summary import get_row_bounds
from aitne_train.profile_report import SCHEMA

_TIMED = ("communicating", "blocked", "overlap", "own_s")
"""Values of a rank that follow from the times of its collectives."""
LIMIT_BYTES = 256 * 1024
MOST_RANKS = 512
MOST_POINTS = 240
BEHIND_SHARE = 0.05
"""Minimum fraction of a step by which a rank must be slower than the others to be reported as a
straggler."""


@dataclass
class History:
    """Points of the profile's chart over time. If there are more than ``MOST_POINTS``, every second
    point is removed, and later points are added half as often.
    """

    points: list[dict[str, Any]] = field(default_factory=list)
    _last: dict[str, float] = field(default_factory=dict)
    _every: int = 1
    _held: int = 0

    def add(self, t_s: float, totals: Mapping[str, float]) -> None:
        """Add a point at ``t_s`` seconds after the start of the run. ``totals`` covers the run
        until then, with the keys ``steps``, ``watched_s``, ``communicating_s`` and ``blocked_s``.
        """
        self._held += 1
        new = {key: totals[key] - self._last.get(key, 0.0) for key in totals}
        if self._held < self._every or new["watched_s"] <= 0:
            return
        self._held = 0
        self._last = dict(totals)
        watched, steps = new["watched_s"], new["steps"]
        self.points.append(
            {
                "t_s": round(t_s, 3),
                "steps": int(totals["steps"]),
                "step_s": _round_seconds(watched / steps) if steps else None,
                "communicating": _compute_share(new["communicating_s"], watched),
                "blocked": _compute_share(new["blocked_s"], watched),
            }
        )
        if len(self.points) > MOST_POINTS:
            self.points = self.points[1::2]
            self._every *= 2


def compute_totals(messages: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
    """Return the totals for ``History.add``: the mean of all ranks' times, and the number of steps
    of the slowest rank. ``messages`` contains the latest message of each rank.
    """
    rows = list(messages.values())
    count = len(rows) or 1
    sums = {
        key: sum(row[key] for row in rows) / count
        for key in ("watched_s", "communicating_s", "blocked_s")
    }
    return {"steps": min((row["steps"] for row in rows), default=0), **sums}


def build_document(
    messages: Mapping[int, Mapping[str, Any]],
    nodes: Sequence[int],
    history: Sequence[dict[str, Any]] = (),
    *,
    final: bool,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return the profile document, computed from the latest message (``CollectiveSummary.message``)
    of each rank that has sent one.

    ``nodes`` contains the number of each rank's node, ``history`` the points of the chart that shows
    the communication over time; ``final`` states whether the run has ended. ``now`` is the time of writing, by default the
    current time.
    """
    # A rank that never waits, because it is the last, need not record waits if others do.
    waits_known = any(message["waits"] for message in messages.values()) or not any(
        message["elsewhere"] for message in messages.values()
    )
    rows = [
        _build_rank_row(rank, nodes[rank], messages[rank], waits_known) for rank in sorted(messages)
    ]
    queued = any(message.get("queued") for message in messages.values())
    if queued:
        rows = [row | dict.fromkeys(_TIMED) for row in rows]
        history = [point | dict.fromkeys(("communicating", "blocked")) for point in history]
    steps = min((row["steps"] for row in rows), default=0)
    communicating = sum(message["communicating_s"] for message in messages.values())
    hidden = sum(message["hidden_s"] for message in messages.values())
    now = datetime.now(UTC) if now is None else now
    return {
        "schema": SCHEMA,
        "written_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "final": final,
        "size": len(nodes),
        "steps": steps,
        "step_s": _compute_mean([row["step_s"] for row in rows]),
        "elapsed_s": _round_seconds(max((m["elapsed_s"] for m in messages.values()), default=0.0)),
        "communicating": _compute_mean([row["communicating"] for row in rows]),
        "blocked": _compute_mean([row["blocked"] for row in rows]),
        "overlap": _compute_share(hidden, communicating) if waits_known and not queued else None,
        "straggler": _find_straggler(rows),
        "table": [
            row | {"bus_bytes_per_s": 0} if queued else row for row in _build_table(messages)
        ],
        "ranks": _find_slowest(rows),
        "history": list(history),
    }


def _build_rank_row(
    rank: int, node: int, message: Mapping[str, Any], waits_known: bool
) -> dict[str, Any]:
    steps, watched = message["steps"], message["watched_s"]
    return {
        "rank": rank,
        "node": node,
        "steps": steps,
        "step_s": _round_seconds(watched / steps) if steps else None,
        "communicating": _compute_share(message["communicating_s"], watched),
        "blocked": _compute_share(message["blocked_s"], watched),
        "overlap": _compute_share(message["hidden_s"], message["communicating_s"])
        if waits_known
        else None,
        "own_s": _round_seconds((watched - message["blocked_s"]) / steps) if steps else None,
        "records": message["records"],
        "dropped": message["dropped"],
    }


def _find_straggler(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the straggler, that is the rank that computes longest in a step, excluding its waits
    for others. Return None if it exceeds the median of the others by less than ``BEHIND_SHARE`` of
    a step.

    Durations are compared, because the clocks of nodes differ: the rank for which the others wait
    in a collective waits least itself.
    """
    rows = [row for row in rows if row["own_s"] is not None]
    if len(rows) < 2:
        return None
    slowest = max(rows, key=lambda row: row["own_s"])
    others = statistics.median(row["own_s"] for row in rows if row is not slowest)
    behind, step = slowest["own_s"] - others, slowest["step_s"]
    if not step or behind / step < BEHIND_SHARE:
        return None
    return {
        "rank": slowest["rank"],
        "node": slowest["node"],
        "behind_s": _round_seconds(behind),
        "share": _compute_share(behind, step),
    }


def _find_slowest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(rows) <= MOST_RANKS:
        return list(rows)
    slowest = sorted(rows, key=lambda row: row["own_s"] or 0.0, reverse=True)[:MOST_RANKS]
    return sorted(slowest, key=lambda row: row["rank"])


def _build_table(messages: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    cells: dict[tuple[str, int], list[Sequence[Any]]] = {}
    for message in messages.values():
        for op, row, *values in message["cells"]:
            cells.setdefault((op, row), []).append(values)
    table = []
    for (op, row), cell_values in sorted(cells.items()):
        low, high = get_row_bounds(row)
        count, nbytes, time_s, fastest, slowest, ranks = zip(*cell_values, strict=True)
        total = sum(time_s)
        table.append(
            {
                "op": op,
                "from_bytes": low,
                "to_bytes": high,
                "count": max(count),
                "bytes": max(nbytes),
                "time_s": _round_seconds(total / len(cell_values)),
                "fastest_s": _round_seconds(min(fastest)),
                "slowest_s": _round_seconds(max(slowest)),
                "bus_bytes_per_s": round(sum(nbytes) * _moved_share(op, max(ranks)) / total)
                if total
                else 0,
            }
        )
    return table


def _moved_share(op: str, ranks: int) -> float:
    """Return the minimum number of bytes that a rank must send in this collective, as a multiple of
    the bytes it contributes.
    """
    if op in ("allreduce", "adasum"):
        return 2 * (ranks - 1) / ranks
    if op == "allgather":
        return ranks - 1  # it contributes one part of what all have afterwards
    return (ranks - 1) / ranks if op in ("alltoall", "reducescatter") else 1.0


def _compute_mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return _round_seconds(sum(present) / len(present)) if present else None


def _compute_share(part: float, whole: float) -> float | None:
    return round(min(1.0, max(0.0, part / whole)), 4) if whole > 0 else None


def _round_seconds(seconds: float) -> float:
    """Return the seconds rounded to a tenth of a microsecond."""
    return round(seconds, 7)
