"""Reports of the metrics that the job's program writes: ``metrics.json``, ``metrics.jsonl`` and
TensorBoard event files below ``$AITNE_METRICS``. The first two are also read in the job's folder,
unless other jobs share it."""

from __future__ import annotations

import json
import math
import os
import stat
import threading
import time

from aitne.agent import tfevents, untrusted_files
from aitne.agent.growing_intervals import sleep_growing_intervals
from aitne.agent.reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator
    from typing import Any

MOST_NAMES = 64
MOST_SERIES = 32
MOST_POINTS = 200
MOST_FILES = 50
LONGEST_NAME = 100
_MOST_JSON = 1 << 20
_AT_ONCE = 1 << 20
"""Maximum number of bytes of a file that one check reads; the next check continues there."""
_LAST_S = 1.0
"""Maximum duration in seconds of the last check, which delays the end of the job."""
_EVERY_S = 2.0
_STEPS = ("step", "_step", "global_step", "iteration", "epoch")


class ProgramMetrics:
    """Metrics that the job's programs have written so far, with their last values and series."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.not_finite: dict[str, str] = {}
        """Metrics whose last value is no number, which JSON cannot represent: nan, inf or -inf."""
        self._series: dict[str, list[tuple[float, float]]] = {}
        self._stride: dict[str, int] = {}
        self._count: dict[str, int] = {}
        self._last: dict[str, tuple[float, float]] = {}
        """Last point of each series, which may be one of those that are left out."""
        self.notes: dict[str, str] = {}
        self.sources: list[str] = []

    def add(self, name: str, value: object, step: float | None = None) -> None:
        """Add a value of the metric ``name``. Without ``step``, it becomes the last value, but
        is not part of the series. Values that are not numbers are ignored."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        name = name[:LONGEST_NAME]
        try:
            number = float(value)
        except OverflowError:
            return
        known = self.values.keys() | self.not_finite.keys()
        if name not in known and len(known) >= MOST_NAMES:
            self.notes["names"] = f"only the first {MOST_NAMES} metrics are kept"
            return
        if not math.isfinite(number):
            self.notes["finite"] = "values that are infinite or not a number are skipped"
            self.values.pop(name, None)
            self.not_finite[name] = str(number)
            return
        self.not_finite.pop(name, None)
        self.values[name] = number
        if step is not None and math.isfinite(step):
            self._add_point(name, step, number)

    def _add_point(self, name: str, step: float, value: float) -> None:
        if name not in self._series:
            if len(self._series) >= MOST_SERIES:
                return
            self._series[name], self._stride[name], self._count[name] = [], 1, 0
        points, number = self._series[name], self._count[name]
        self._count[name] += 1
        self._last[name] = (step, value)
        if number % self._stride[name]:
            return
        points.append((step, value))
        if len(points) >= MOST_POINTS:
            del points[1::2]
            self._stride[name] *= 2

    def _make_complete_series(self, name: str) -> list[tuple[float, float]]:
        """Return the series with its last point, so that a chart ends at the last value."""
        points, last = self._series[name], self._last[name]
        return points if points and points[-1] == last else [*points, last]

    def document(self) -> dict[str, Any]:
        """Return all metrics in the format of the agent's reports."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {
            "schema": 1,
            "updated_at": now,
            "values": dict(self.values),
            "not_finite": dict(self.not_finite),
            "series": {name: self._make_complete_series(name) for name in self._series},
            "sources": self.sources[:MOST_FILES],
            "notes": list(self.notes.values()),
        }


class MetricsWatch:
    """Thread that reads the metrics of the job's programs and reports new ones. The intervals grow,
    so that a job of a week needs only a few thousand checks."""

    def __init__(self, reporter: Reporter, folder: str, workdir: str | None, since: float) -> None:
        self._reporter = reporter
        self._folder = folder
        self._workdir = workdir
        self._since = since
        self._metrics = ProgramMetrics()
        self._seen: dict[str, tuple[int, int]] = {}
        self._read: dict[str, int] = {}
        self._lines_of: dict[str, int] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread that checks for metrics."""
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _run(self) -> None:
        for _ in sleep_growing_intervals(_EVERY_S):
            self.report_new()

    def report_remaining(self) -> None:
        """Read and report the remaining metrics after a program has ended, for at most one
        second."""
        deadline = time.monotonic() + _LAST_S
        while self.report_new() and time.monotonic() < deadline:
            continue

    def report_new(self) -> bool:
        """Read the files once and report new metrics; return whether there were any."""
        with self._lock:
            new = [path for path in self._list_metric_files() if self._has_changed(path)]
            if new:
                self._reporter.queue_document("results", self._metrics.document())
            return bool(new)

    def _list_metric_files(self) -> Iterator[str]:
        if self._workdir is not None:
            for name in ("metrics.json", "metrics.jsonl"):
                path = f"{self._workdir}/{name}"
                try:
                    if os.lstat(path).st_ctime >= self._since:
                        yield path
                except OSError:
                    continue
        count = 0
        for place, folders, names in os.walk(self._folder):
            folders.sort()
            for name in sorted(names):
                if name in ("metrics.json", "metrics.jsonl") or ".tfevents." in name:
                    count += 1
                    if count > MOST_FILES:
                        self._metrics.notes["files"] = f"only {MOST_FILES} files are read"
                        return
                    yield os.path.join(place, name)

    def _has_changed(self, path: str) -> bool:
        try:
            if path.endswith("metrics.json"):
                return self._read_whole_file(path)
            return self._read_appended(path)
        except tfevents.EventFileError as error:
            self._read[path] = -1
            self._metrics.notes[path] = f"{self._get_relative_path(path)} is damaged: {error}"
            return True
        except OSError:
            return False

    def _read_whole_file(self, path: str) -> bool:
        document = untrusted_files.read_json_object(path, _MOST_JSON)
        if document is None:
            return False
        facts, values = document
        stamp = (facts.st_ino, facts.st_mtime_ns)
        if self._seen.get(path) == stamp:
            return False
        self._seen[path] = stamp
        self._add_source(path)
        step = _parse_step(values)
        for name, value in values.items():
            if isinstance(name, str) and name not in _STEPS:
                self._metrics.add(self._make_name_prefix(path) + name, value, step)
        return True

    def _read_appended(self, path: str) -> bool:
        begin = self._read.get(path, 0)
        if begin < 0:
            return False
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb") as content:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                return False
            if facts.st_size < begin:
                begin = 0  # it was overwritten
            if facts.st_size == begin:
                return False
            content.seek(begin)
            data = content.read(_AT_ONCE)
        self._add_source(path)
        if path.endswith(".jsonl"):
            took = self._read_json_lines(path, data)
        else:
            took = self._read_event_records(path, data, facts.st_size - begin)
        self._read[path] = begin + took
        return took > 0

    def _read_json_lines(self, path: str, data: bytes) -> int:
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= _AT_ONCE:
            end = len(data)  # no valid line is that long
        for line in data[:end].splitlines():
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                values = None
            if not isinstance(values, dict):
                name = self._get_relative_path(path)
                self._metrics.notes[path] = (
                    f"lines of {name} that are not a JSON object are skipped"
                )
                continue
            step = _parse_step(values)
            self._lines_of[path] = count = self._lines_of.get(path, -1) + 1
            for name, value in values.items():
                if name not in _STEPS:
                    self._metrics.add(
                        self._make_name_prefix(path) + name,
                        value,
                        float(count) if step is None else step,
                    )
        return end

    def _read_event_records(self, path: str, data: bytes, there: int) -> int:
        scalars, took, beyond = tfevents.read_events(data)
        for tag, step, value in scalars:
            self._metrics.add(self._make_name_prefix(path) + tag, value, float(step))
        return took + beyond if took + beyond <= there else took

    def _add_source(self, path: str) -> None:
        name = self._get_relative_path(path)
        if name not in self._metrics.sources:
            self._metrics.sources.append(name)

    def _get_relative_path(self, path: str) -> str:
        below = os.path.relpath(path, self._folder)
        return os.path.basename(path) if below.startswith("..") else below

    def _make_name_prefix(self, path: str) -> str:
        """Return the prefix for the names of metrics in a file: its subfolder, which TensorBoard
        calls the run."""
        folder = os.path.dirname(self._get_relative_path(path))
        return f"{folder}/" if folder else ""


def _parse_step(values: dict[str, Any]) -> float | None:
    for name in _STEPS:
        step = values.get(name)
        if isinstance(step, (int, float)) and not isinstance(step, bool):
            try:
                return float(step)
            except OverflowError:
                return None
    return None
