"""Communication profile of a run as text for users and for Prometheus: ``aitne-train profile FILE``.

The module ``profile_document`` describes the file; ``profiler`` writes it during the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aitne_train.byte_size_formatting import describe_bytes

SCHEMA = 1


def load_profile(path: Path) -> dict[str, Any]:
    """Read a profile from its file.

    Raises ``ValueError`` if the content is invalid or of an unknown schema.
    """
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema}; this program reads {SCHEMA}")
    return dict(document)


def format_table(profile: Mapping[str, Any]) -> str:
    """Return the profile as lines of text: totals, a table by operation and message size (as the
    profiler hvprof prints it), and a table of the ranks.
    """
    state = "ended" if profile["final"] else f"as of {profile['written_at']}"
    lines = [
        f"{profile['size']} ranks, {profile['steps']} steps in {profile['elapsed_s']:.1f} s ({state})",
        f"step            {_format_time(profile['step_s'])}",
        f"communication   {_format_percent(profile['communicating'])} of the step,"
        f" {_format_percent(profile['overlap'])} of it overlapped with computation",
        f"exposed         {_format_percent(profile['blocked'])} of the step",
    ]
    if straggler := profile["straggler"]:
        lines.append(
            f"straggler       rank {straggler['rank']} on node {straggler['node']}:"
            f" {_format_time(straggler['behind_s'])} behind the others in each step"
            f" ({_format_percent(straggler['share'])})"
        )
    if profile["table"]:
        lines += ["", *_align_columns(_format_size_rows(profile["table"]), words=2)]
    if profile["ranks"]:
        lines += ["", *_align_columns(_format_rank_rows(profile["ranks"]), words=0)]
    return "\n".join(lines)


def format_prometheus(profile: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> str:
    """Return the profile in Prometheus' text format. ``labels`` are added to every sample.

    Counters never decrease, because a profile always covers the run from its beginning.
    """
    common = dict(labels or {})
    lines: list[str] = []

    def add_family(name: str, kind: str, samples: Sequence[tuple[Mapping[str, str], Any]]) -> None:
        present = [(sample_labels, value) for sample_labels, value in samples if value is not None]
        if present:
            lines.append(f"# TYPE {name} {kind}")
            lines.extend(
                f"{name}{_format_labels({**common, **sample_labels})} {value}"
                for sample_labels, value in present
            )

    add_family("aitne_distrib_ranks", "gauge", [({}, profile["size"])])
    add_family("aitne_distrib_steps_total", "counter", [({}, profile["steps"])])
    add_family("aitne_distrib_step_seconds", "gauge", [({}, profile["step_s"])])
    add_family("aitne_distrib_communicating_ratio", "gauge", [({}, profile["communicating"])])
    add_family("aitne_distrib_blocked_ratio", "gauge", [({}, profile["blocked"])])
    add_family("aitne_distrib_overlap_ratio", "gauge", [({}, profile["overlap"])])
    straggler = profile["straggler"]
    add_family(
        "aitne_distrib_straggler_behind_seconds",
        "gauge",
        [({"rank": str(straggler["rank"])}, straggler["behind_s"])] if straggler else [],
    )
    rows = [
        ({"op": row["op"], "size": _format_bounds(row["from_bytes"], row["to_bytes"])}, row)
        for row in profile["table"]
    ]
    for name, key in (
        ("collectives_total", "count"),
        ("bytes_total", "bytes"),
        ("seconds_total", "time_s"),
    ):
        samples = [(row_labels, row[key]) for row_labels, row in rows]
        add_family(f"aitne_distrib_{name}", "counter", samples)
    return "".join(f"{line}\n" for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a profile; return the exit code: 0, or 1 if the file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="aitne-train profile",
        description="Print the communication profile of a run, from its profile.json.",
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--prometheus", action="store_true", help="in Prometheus' text format")
    options = parser.parse_args(argv)
    try:
        profile = load_profile(options.file)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        format_prometheus(profile) if options.prometheus else f"{format_table(profile)}\n"
    )
    return 0


def _format_size_rows(rows: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    total = sum(row["time_s"] for row in rows) or 1.0
    heading = ("operation", "message size", "count", "bytes", "time", "share", "mean", "bus")
    return [
        heading,
        *(
            (
                row["op"],
                _format_bounds(row["from_bytes"], row["to_bytes"]),
                str(row["count"]),
                describe_bytes(row["bytes"]),
                _format_time(row["time_s"]),
                _format_percent(row["time_s"] / total),
                _format_time(row["time_s"] / row["count"]),
                f"{describe_bytes(round(row['bus_bytes_per_s']))}/s",
            )
            for row in rows
        ),
    ]


def _format_rank_rows(rows: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    heading = ("rank", "node", "steps", "compute time", "communication", "exposed", "lost")
    return [
        heading,
        *(
            (
                str(row["rank"]),
                str(row["node"]),
                str(row["steps"]),
                _format_time(row["own_s"]),
                _format_percent(row["communicating"]),
                _format_percent(row["blocked"]),
                str(row["dropped"]),
            )
            for row in rows
        ),
    ]


def _align_columns(rows: Sequence[Sequence[str]], words: int) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _format_bounds(low: int, high: int | None) -> str:
    """Return a range of message sizes in the notation of the profiler hvprof, in which each range
    begins at the end of the previous one. ``high`` None: no upper bound.
    """
    if high is None:
        return f"> {describe_bytes(low - 1)}"
    return (
        f"{describe_bytes(low - 1)} - {describe_bytes(high)}"
        if low
        else f"0 - {describe_bytes(high)}"
    )


def _format_time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _format_percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
