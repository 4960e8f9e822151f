"""Output of the differences between a folder and its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from aitne.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aitne.client.manifests import Difference, Verification

MOST_SHOWN = 50
"""Maximum number of lines that are shown on a terminal."""


def show(found: Sequence[Difference], file: TextIO) -> None:
    """Print the first differences as a table, and the number of further ones."""
    shown = found[:MOST_SHOWN]
    rows = [(each.kind, each.path, each.reason) for each in shown]
    output.table(("WHAT", "PATH", "WHY"), rows, file=file)
    if len(found) > len(shown):
        output.say(f"... and {len(found) - len(shown)} more.")


def write(report: Path, found: Sequence[Difference]) -> None:
    """Write all differences to a file, one a line: kind, path and reason, separated by tabs."""
    report.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with report.open("w", encoding="utf-8") as file:
        file.writelines(f"{each.kind}\t{each.path}\t{each.reason}\n" for each in found)


def summary(found: Verification) -> str:
    """Return the numbers of differences, as the end of a sentence."""
    untold = len(found.differences) - found.damaged_files
    words = []
    if found.damaged_files:
        words.append(
            f"{several(found.damaged_files, 'difference')} from its manifest of "
            f"{several(found.files, 'file')}"
        )
    if untold:
        words.append(
            f"{several(untold, 'path')} could not be compared: run it again, as somebody "
            "who may read them"
        )
    return "; ".join(words) + "."


def several(count: int, what: str) -> str:
    """Return a count with its noun: ``1 path``, ``2 paths``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
