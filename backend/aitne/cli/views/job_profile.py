"""``aitne profile``: the profile of a job's collectives, as its ranks report it."""

from __future__ import annotations

from aitne.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_RANKS = 16


def show(profile: dict[str, Any]) -> None:
    """Print the totals, the slowest rank, a row for each message size, and the ranks that compute
    longest."""
    steps = f"{profile['steps']} in {output.duration(profile['elapsed_s'])}"
    output.facts(
        [
            ("Ranks", profile["size"]),
            (
                "Steps",
                steps if profile["final"] else f"{steps}, as of {profile['written_at'][:19]}",
            ),
            ("Step", _time(profile["step_s"])),
            ("Communication", _of(profile["communicating"], "of the step")),
            ("Overlapped", _of(profile["overlap"], "of that, with computation")),
            ("Exposed", _of(profile["blocked"], "of the step")),
            ("Straggler", _straggler(profile["straggler"])),
        ]
    )
    if profile["table"]:
        output.answer("")
        _sizes(profile["table"])
    if len(profile["ranks"]) > 1:
        output.answer("")
        _ranks(profile["ranks"])


def _sizes(rows: list[dict[str, Any]]) -> None:
    total = sum(row["time_s"] for row in rows) or 1.0
    output.table(
        ("OPERATION", "MESSAGE SIZE", "COUNT", "BYTES", "TIME", "SHARE", "MEAN", "BUS"),
        [
            (
                row["op"],
                _bounds(row["from_bytes"], row["to_bytes"]),
                row["count"],
                output.memory(row["bytes"]),
                _time(row["time_s"]),
                f"{row['time_s'] / total:.0%}",
                _time(row["time_s"] / max(1, row["count"])),
                f"{output.memory(int(row['bus_bytes_per_s']))}/s",
            )
            for row in rows
        ],
    )


def _ranks(rows: list[dict[str, Any]]) -> None:
    slowest = sorted(rows, key=lambda row: row["own_s"] or 0.0, reverse=True)[:_MOST_RANKS]
    output.table(
        ("RANK", "NODE", "STEPS", "COMPUTE TIME", "COMMUNICATION", "EXPOSED"),
        [
            (
                row["rank"],
                row["node"],
                row["steps"],
                _time(row["own_s"]),
                _of(row["communicating"]),
                _of(row["blocked"]),
            )
            for row in sorted(slowest, key=lambda row: int(row["rank"]))
        ],
    )
    if len(rows) > _MOST_RANKS:
        output.answer(f"… and {len(rows) - _MOST_RANKS} that compute less in each step")


def _straggler(rank: dict[str, Any] | None) -> str:
    if rank is None:
        return ""
    return (
        f"rank {rank['rank']} on node {rank['node']}: {_time(rank['behind_s'])} behind the others "
        "in each step"
    )


def _bounds(low: int, high: int | None) -> str:
    first = output.memory(max(0, low - 1))
    return f"more than {first}" if high is None else f"{first} - {output.memory(high)}"


def _of(share: float | None, whole: str = "") -> str:
    return "" if share is None else f"{share:.1%} {whole}".rstrip()


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
