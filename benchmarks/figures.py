"""The rows that a benchmark returns, shown as JSON, as a table or as Markdown for the docs."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.stats import Estimate

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
FIGURES, PERFORMANCE = "figures.md", "performance.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One number. ``target`` is the most it may be, ``least`` the least; None: it is only reported."""

    what: str
    unit: str
    estimate: Estimate
    target: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool | None:
        """Return whether the estimate meets the target; None without a target."""
        if self.least is not None:
            return self.estimate.value >= self.least
        return None if self.target is None else self.estimate.value <= self.target

    @property
    def aim(self) -> str:
        """The target as text."""
        if self.least is not None:
            return f"≥ {_format(self.least, self.unit)}"
        return "" if self.target is None else f"≤ {_format(self.target, self.unit)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """All numbers of one benchmark, and what has to be said about them."""

    name: str
    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """Return the figure as a JSON object."""
        rows = [{**asdict(row), "met": row.met} for row in self.rows]
        return {"name": self.name, "title": self.title, "rows": rows, "notes": list(self.notes)}


HEADINGS = ("measured", "value", "95 % interval", "n", "target", "")


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row of the table."""
    number = row.estimate
    single = number.low == number.high
    return (
        row.what,
        _format(number.value, row.unit),
        "" if single else f"{_format(number.low, '')} – {_format(number.high, '')}",
        str(number.count),
        row.aim,
        {None: "", True: "met", False: "missed"}[row.met],
    )


def table(figure: Figure) -> str:
    """Return the figure as a table for a terminal."""
    lines = [HEADINGS, *map(cells, figure.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    drawn = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([figure.title, *(f"  {line}" for line in drawn), *_bullets(figure.notes)])


def markdown(figure: Figure) -> str:
    """Return the figure as a Markdown table for the documentation."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, figure.rows)]
    drawn = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*drawn, "", *_bullets(figure.notes)]).rstrip()


def write(figures: Iterable[Figure], folder: Path = REFERENCE) -> list[str]:
    """Put the tables between their markers in the page of figures, and the rows of all tables that
    have a target into the page about performance. Return the names of figures without markers.
    """
    page = folder / FIGURES
    text = page.read_text()
    homeless = []
    for figure in figures:
        begin, end = f"<!-- begin {figure.name} -->", f"<!-- end {figure.name} -->"
        if _block(figure.name).search(text) is None:
            homeless.append(figure.name)
            continue
        drawn = f"{begin}\n{markdown(figure)}\n{end}"
        text = _block(figure.name).sub(lambda _, drawn=drawn: drawn, text)  # type: ignore[misc]
    page.write_text(text)
    summary = folder / PERFORMANCE
    drawn = f"<!-- begin targets -->\n{_targets(text)}\n<!-- end targets -->"
    summary.write_text(_block("targets").sub(lambda _: drawn, summary.read_text()))
    return homeless


def _block(name: str) -> re.Pattern[str]:
    return re.compile(f"<!-- begin {name} -->.*?<!-- end {name} -->", re.DOTALL)


def _targets(figures: str) -> str:
    """Return a table of the rows with a target in the text of the page of figures."""
    lines = ["| benchmark | measured | value | target |  |", "| --- | --- | --- | --- | --- |"]
    name = ""
    for line in figures.splitlines():
        if line.startswith("<!-- begin "):
            name = line.split()[2]
        columns = [column.strip() for column in line.strip("|").split("|")]
        if line.startswith("| ") and columns[-1] in ("met", "missed"):
            what, value, _, _, aim, met = columns
            lines.append(f"| `{name}` | {what} | {value} | {aim} | {met} |")
    return "\n".join(lines)


def machine_note() -> str:
    """Return a note on the machine and its load before the first measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = os.getloadavg()[0]
    return (
        f"Taken with {len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB, Python "
        f"{platform.python_version()}; load average before the start {load:.1f}."
    )


def _format(value: float, unit: str) -> str:
    if value == 0 or (float(value).is_integer() and abs(value) < 1e6):
        text = f"{value:.0f}"
    else:
        text = f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return f"{text} {unit}".rstrip()


def _bullets(notes: Sequence[str]) -> list[str]:
    return [f"- {note}" for note in notes]
