"""Table and JSON of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.compare_sbatch.comparison import Difference, Result, Row

_COLUMNS = (
    *("lines", "files", "nodes", "tasks", "memory", "total", "gpus", "limit", "requeue", "queue"),
    *("exit", "command", "environment"),
)
_MOST_VALUES = 12
"""Maximum number of values of a difference that the table shows."""


def table(rows: Sequence[Row]) -> str:
    """Return a line for each script with what differs, the differences and notes below it, and the
    number of scripts with each result.
    """
    width = max((len(row.name) for row in rows), default=0)
    heads = [column[:5] for column in _COLUMNS]
    lines = [f"{'script':<{width}}  {' '.join(f'{head:<5}' for head in heads)}  result"]
    for row in rows:
        cells = " ".join(f"{cell:<5}" for cell in _cells(row))
        reason = f": {row.reason}" if row.reason else ""
        lines.append(f"{row.name:<{width}}  {cells}  {row.result}{reason}")
        lines += [f"    {line}" for line in _details(row)]
    counts = Counter(row.result for row in rows)
    summary = ", ".join(f"{counts[result]} {result}" for result in Result if counts[result])
    return "\n".join([*lines, f"{len(rows)} scripts: {summary}"])


def document(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the comparison for JSON."""
    return [
        {
            "script": row.name,
            "result": row.result.value,
            "reason": row.reason,
            "notes": [*row.notes],
            "sbatch": {aspect: [*values] for aspect, values in row.values.items()},
            "differences": [
                {
                    "aspect": difference.aspect,
                    "sbatch": [*difference.sbatch],
                    "platform": [*difference.platform],
                }
                for difference in row.differences
            ],
        }
        for row in rows
    ]


def succeeded(rows: Sequence[Row]) -> bool:
    """Return whether all scripts have ended, and none ran differently without a word."""
    return all(row.result not in (Result.DIFFERENT, Result.UNFINISHED) for row in rows)


def _cells(row: Row) -> Iterator[str]:
    """Yield a cell for each column: ``=`` if the two are alike, ``x`` if not."""
    different = {difference.aspect.split()[0] for difference in row.differences}
    compared = bool(row.values)
    for column in _COLUMNS:
        yield ("x" if column in different else "=") if compared else "-"


def _details(row: Row) -> Iterator[str]:
    for difference in row.differences:
        yield f"{difference.aspect}: {_sides(difference)}"
    if row.result is not Result.ALIKE:
        yield from (f"note: {note}" for note in row.notes)


def _sides(difference: Difference) -> str:
    sides = (("sbatch", difference.sbatch), ("platform", difference.platform))
    return " | ".join(f"{side}: {_listed(values)}" for side, values in sides)


def _listed(values: Sequence[str]) -> str:
    first = "; ".join(values[:_MOST_VALUES]) or "nothing"
    more = len(values) - _MOST_VALUES
    return f"{first}; and {more} more" if more > 0 else first
