"""``aitne profile``: the profile of a job's collectives, as its ranks report it."""

from __future__ import annotations

from aitne.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_RANKS = 16


def print_profile(profile: dict[str, Any]) -> None:
    """Print the totals, the slowest rank, a row for each message size, and the ranks that compute
    longest."""
    steps = f"{profile['steps']} in {output.format_duration(profile['elapsed_s'])}"
    output.print_facts(
        [
            ("Ranks", profile["size"]),
            (
                "Steps",
                steps if profile["final"] else f"{steps}, as of {profile['written_at'][:19]}",
            ),
            ("Step", _format_time(profile["step_s"])),
            ("Communication", _format_share(profile["communicating"], "of the step")),
            ("Overlapped", _format_share(profile["overlap"], "of that, with computation")),
            ("Exposed", _format_share(profile["blocked"], "of the step")),
            ("Straggler", _describe_straggler(profile["straggler"])),
        ]
    )
    if profile["table"]:
        output.print_line("")
        _print_size_table(profile["table"])
    if len(profile["ranks"]) > 1:
        output.print_line("")
        _print_rank_table(profile["ranks"])


def _print_size_table(rows: list[dict[str, Any]]) -> None:
    total = sum(row["time_s"] for row in rows) or 1.0
    output.print_table(
        ("OPERATION", "MESSAGE SIZE", "COUNT", "BYTES", "TIME", "SHARE", "MEAN", "BUS"),
        [
            (
                row["op"],
                _format_size_range(row["from_bytes"], row["to_bytes"]),
                row["count"],
                output.format_memory(row["bytes"]),
                _format_time(row["time_s"]),
                f"{row['time_s'] / total:.0%}",
                _format_time(row["time_s"] / max(1, row["count"])),
                f"{output.format_memory(int(row['bus_bytes_per_s']))}/s",
            )
            for row in rows
        ],
    )


def _print_rank_table(rows: list[dict[str, Any]]) -> None:
    slowest = sorted(rows, key=lambda row: row["own_s"] or 0.0, reverse=True)[:_MOST_RANKS]
    output.print_table(
        ("RANK", "NODE", "STEPS", "COMPUTE TIME", "COMMUNICATION", "EXPOSED"),
        [
            (
                row["rank"],
                row["node"],
                row["steps"],
                _format_time(row["own_s"]),
                _format_share(row["communicating"]),
                _format_share(row["blocked"]),
            )
            for row in sorted(slowest, key=lambda row: int(row["rank"]))
        ],
    )
    if len(rows) > _MOST_RANKS:
        output.print_line(f"… and {len(rows) - _MOST_RANKS} that compute less in each step")


def _describe_straggler(rank: dict[str, Any] | None) -> str:
    if rank is None:
        return ""
    return (
        f"rank {rank['rank']} on node {rank['node']}: {_format_time(rank['behind_s'])} behind the others "
        "in each step"
    )


def _format_size_range(low: int, high: int | None) -> str:
    first = output.format_memory(max(0, low - 1))
    return f"more than {first}" if high is None else f"{first} - {output.format_memory(high)}"


def _format_share(share: float | None, whole: str = "") -> str:
    return "" if share is None else f"{share:.1%} {whole}".rstrip()


def _format_time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
