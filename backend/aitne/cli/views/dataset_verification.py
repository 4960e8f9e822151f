"""Output of the differences between a folder and its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from aitne.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aitne.client.manifests import ManifestDifference, Verification

MOST_SHOWN = 50
"""Maximum number of lines that are shown on a terminal."""


def print_differences(differences: Sequence[ManifestDifference], file: TextIO) -> None:
    """Print the first ``MOST_SHOWN`` differences as a table, and the number of further ones."""
    shown = differences[:MOST_SHOWN]
    rows = [(difference.kind, difference.path, difference.reason) for difference in shown]
    output.print_table(("WHAT", "PATH", "WHY"), rows, file=file)
    if len(differences) > len(shown):
        output.print_message(f"... and {len(differences) - len(shown)} more.")


def write_differences(report: Path, differences: Sequence[ManifestDifference]) -> None:
    """Write all differences to a file, one a line: kind, path and reason, separated by tabs."""
    report.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with report.open("w", encoding="utf-8") as file:
        file.writelines(
            f"{difference.kind}\t{difference.path}\t{difference.reason}\n"
            for difference in differences
        )


def format_summary(verification: Verification) -> str:
    """Return the numbers of differences and of paths that could not be compared, as the end of a
    sentence."""
    untold = len(verification.differences) - verification.damaged_files
    words = []
    if verification.damaged_files:
        words.append(
            f"{format_count(verification.damaged_files, 'difference')} from its manifest of "
            f"{format_count(verification.files, 'file')}"
        )
    if untold:
        words.append(
            f"{format_count(untold, 'path')} could not be compared: run it again as a user who "
            "may read them"
        )
    return "; ".join(words) + "."


def format_count(count: int, what: str) -> str:
    """Return a count with its noun: ``1 path``, ``2 paths``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
