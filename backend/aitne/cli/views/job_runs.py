"""Output of runs: snapshots, differences between two runs, results of a sweep."""

from __future__ import annotations

import csv
import sys

from aitne.cli import output
from aitne.core.spreadsheet_cells import escape_cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

    from aitne.client.job_runs import (
        ComparisonRecord,
        RerunRecord,
        SnapshotRecord,
        SweepRecord,
        SweepTaskRecord,
        WrittenFilesRecord,
    )

_MOST_NAMES = 10
_SECTIONS = {
    "job": "Job file",
    "parameters": "Parameters",
    "resources": "Resources",
    "code": "Code",
    "packages": "Packages",
    "data": "Image and data",
    "node": "Node",
    "outcome": "Outcome",
    "use": "Use",
    "metrics": "Metrics",
}


def print_snapshot(snapshot: SnapshotRecord) -> None:
    """Print the snapshot of a run, including names of untracked files and the number of
    packages."""
    taken = snapshot.taken or {}
    git, environment = taken.get("git") or {}, taken.get("environment") or {}
    host = taken.get("host") or {}
    changes = ""
    if git:
        size = output.format_memory(git["diff_bytes"])
        changes = f"a diff of {size}: --diff prints it" if git["dirty"] else "none"
    packages = environment.get("packages") or {}
    output.print_facts(
        [
            (
                "Taken",
                str(taken["taken_at"])[:19] if taken else "nothing: its agent has not reported",
            ),
            ("Folder", output.to_single_line(taken.get("workdir") or "")),
            ("Commit", git.get("commit")),
            ("Branch", output.to_single_line(git.get("branch") or "")),
            ("Remote", output.to_single_line(git.get("remote") or "")),
            ("Changes", changes),
            ("Untracked", _format_names(git.get("untracked") or [])),
            ("Image", "" if snapshot.image == "bare" else output.to_single_line(snapshot.image)),
            ("Digest", snapshot.image_digest),
            ("Modules", " ".join(snapshot.modules)),
            ("Environment", output.to_single_line(environment.get("path") or "")),
            ("Python", environment.get("python")),
            ("Packages", f"{len(packages)}: --packages lists them" if packages else ""),
            ("Datasets", ", ".join(f"{use['name']}:{use['version']}" for use in snapshot.datasets)),
            ("Node", host.get("node")),
            ("System", host.get("system")),
            ("Kernel", host.get("kernel")),
            ("Processor", host.get("cpu")),
            ("GPU driver", host.get("gpu_driver")),
            *(("Note", output.to_single_line(note)) for note in taken.get("notes") or []),
        ]
    )


def print_packages(snapshot: SnapshotRecord) -> None:
    """Print the packages in a snapshot, one on each line, in the format of pip."""
    environment = (snapshot.taken or {}).get("environment") or {}
    for name, version in sorted((environment.get("packages") or {}).items()):
        output.print_line(f"{name}=={version}")


def print_diff(snapshot: SnapshotRecord) -> None:
    """Print the uncommitted changes in a snapshot in the format of ``git apply``."""
    git = (snapshot.taken or {}).get("git") or {}
    sys.stdout.write(git.get("diff") or "")
    if git.get("diff_cut"):
        output.print_message(f"The diff is cut: it had {output.format_memory(git['diff_bytes'])}.")


def print_files(listing: WrittenFilesRecord) -> None:
    """Print the files that a job changed as a table."""
    output.print_table(
        ("PATH", "SIZE", "CHANGED"),
        [
            (file.path, output.format_memory(file.size_bytes), output.format_time(file.modified_at))
            for file in listing.files
        ],
    )
    if listing.cut:
        output.print_message("There are more files than are listed.")


def print_rerun(rerun: RerunRecord, *, file: TextIO) -> None:
    """Print what has changed since a run, and what prevents running it again."""
    rows = [
        *(("problem", problem["field"], problem["message"]) for problem in rerun.problems),
        *(("changed", change["kind"], change["message"]) for change in rerun.changes),
        *(("not known", "", note) for note in rerun.notes),
    ]
    if rows:
        output.print_table(("", "WHAT", "SINCE IT RAN"), rows, file=file)
    else:
        output.print_message("No change since it ran is known.")


def _short_id(run: Mapping[str, Any]) -> str:
    index = run["array_task_id"]
    return run["id"][:8] if index is None else f"{run['id'][:8]}_{index}"


def print_comparison(comparison: ComparisonRecord, *, everything: bool) -> None:
    """Print the values in which two runs differ, section by section; all values with
    ``everything``."""
    heads = [
        f"{_short_id(run)} {output.to_single_line(run['name'], 30)}"
        for run in (comparison.a, comparison.b)
    ]
    rows: list[tuple[str, str, str, str]] = []
    for section in comparison.sections:
        title = _SECTIONS.get(section["key"], section["key"])
        for row in section["rows"]:
            if everything or not row["equal"]:
                cells = (_format_cell(row[side], row["unit"]) for side in ("a", "b"))
                rows.append((title, row["field"], *cells))
    if rows:
        output.print_table(("", "FIELD", *heads), rows)
    if not comparison.differences:
        output.print_message("No difference between them is known.")


def print_sweep(sweep: SweepRecord) -> None:
    """Print a table with a row for each task of a sweep, the best first."""
    names = _list_shown_metrics(sweep)
    sign = -1 if sweep.goal == "max" else 1

    def sort_key(task: Any) -> tuple[bool, float, int]:
        value = task.values.get(sweep.metric) if sweep.metric else None
        return value is None, 0.0 if value is None else sign * value, task.task

    output.print_table(
        ("TASK", "STATE", *sweep.parameters, *(name.upper() for name in names), ""),
        [
            (
                task.task,
                task.state,
                *(_format_cell(task.parameters.get(name), None) for name in sweep.parameters),
                *(_format_cell(_get_last_value(task, name), None) for name in names),
                "best" if task.task == sweep.best else "",
            )
            for task in sorted(sweep.tasks, key=sort_key)
        ],
    )


def write_csv(sweep: SweepRecord, file: TextIO) -> None:
    """Write the sweep as CSV, a line for each task."""
    names = _all_metrics(sweep)
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["task", "job_id", "state", *map(escape_cell, [*sweep.parameters, *names])])
    for task in sweep.tasks:
        settings = [escape_cell(task.parameters.get(name)) for name in sweep.parameters]
        values = [_get_last_value(task, name) for name in names]
        lines.writerow([task.task, task.job_id, task.state, *settings, *values])


def _all_metrics(sweep: SweepRecord) -> list[str]:
    return sorted({name for task in sweep.tasks for name in (*task.values, *task.not_finite)})


def _get_last_value(task: SweepTaskRecord, name: str) -> float | str | None:
    """Return the last value of a metric, as text if it is not finite; None: there is none."""
    return task.values.get(name, task.not_finite.get(name))


def _list_shown_metrics(sweep: SweepRecord) -> list[str]:
    names = _all_metrics(sweep)
    if sweep.metric in names:
        names.remove(sweep.metric)
        names.insert(0, sweep.metric)
    return names[:_MOST_NAMES]


def _format_names(names: list[str]) -> str:
    shown = ", ".join(output.to_single_line(name, 60) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _format_cell(value: Any, unit: str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes":
        return output.format_memory(int(value))
    if unit == "seconds":
        return output.format_duration(value)
    if unit == "share":
        return f"{value:.0%}"
    return f"{value:.6g}" if isinstance(value, float) else output.to_single_line(value, 60)
