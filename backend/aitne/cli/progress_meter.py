"""Progress of reading a dataset, uploading a working tree or downloading files: a bar on a terminal, otherwise one
line every 30 seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from aitne.cli import output

if TYPE_CHECKING:
    from aitne.client.manifests import Progress

LINE_S = 30.0
"""Seconds between two progress lines if the output is not a terminal."""
_VERBS = {
    "read": ("Reading", "read"),
    "send": ("Uploading", "uploaded"),
    "receive": ("Downloading", "downloaded"),
}
"""Words for the stages that count bytes: of an ongoing stage, and of one that has ended."""


class ProgressMeter:
    """Progress callback that shows a ``Progress`` on stderr. It is a context manager, which is left
    before other output."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._begun = self._reported_at = time.monotonic()
        self._reported_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove_bar()

    def __call__(self, now: Progress) -> None:
        """Show the current progress on stderr."""
        if now.stage == "read" and now.kept_files and not self._reported_kept:
            self._reported_kept = True
            self.remove_bar()
            output.print_message("Resuming where an interrupted run stopped.")
        if sys.stderr.isatty():
            self._draw_bar(now)
        else:
            self._print_progress_line(now)

    def remove_bar(self) -> None:
        """Remove the bar, so that other output can follow."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw_bar(self, now: Progress) -> None:
        if self._bar is None or now.stage != self._stage:
            self.remove_bar()
            self._stage = now.stage
            self._bar = _make_bar(listing=now.stage not in _VERBS)
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
        if now.stage in _VERBS:
            # Bytes that an earlier run has read would count as speed.
            self._bar.update(
                self._task,
                description=f"{_VERBS[now.stage][0]} {now.files} files",
                completed=now.done_bytes - now.kept_bytes,
                total=now.total_bytes - now.kept_bytes,
            )
        else:
            word = "Listing" if now.stage == "list" else "Looking for changes"
            self._bar.update(self._task, description=f"{word}: {now.found} files")
        self._bar.refresh()

    def _print_progress_line(self, now: Progress) -> None:
        if time.monotonic() - self._reported_at < LINE_S or now.stage not in _VERBS:
            return
        self._reported_at = time.monotonic()
        output.print_message(
            f"{output.format_memory(now.done_bytes)} of {output.format_memory(now.total_bytes)} "
            f"{_VERBS[now.stage][1]}, "
            f"{now.done_files} of {now.files} files, "
            f"after {output.format_duration(self._reported_at - self._begun)}."
        )


def _make_bar(*, listing: bool) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
    if not listing:
        columns += [
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        ]
    # Drawn only when there is progress, without a separate thread.
    return Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
