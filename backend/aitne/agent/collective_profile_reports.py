"""Reports of the profile of collectives, which rank 0 of a distributed program writes to
``$AITNE_RUN_DIR/profile.json``."""

from __future__ import annotations

import threading

from aitne.agent import untrusted_files
from aitne.agent.growing_intervals import sleep_growing_intervals
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

MOST_BYTES = 256 << 10
_EVERY_S = 2.0


class ProfileWatch:
    """Thread that reports new profiles of a distributed program. It checks for them at growing
    intervals, so that a week needs only a few thousand checks."""

    def __init__(self, spec: Spec, reporter: Reporter) -> None:
        self._spec = spec
        self._reporter = reporter
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread that checks for the profile."""
        threading.Thread(target=self._run, name="profile", daemon=True).start()

    def _run(self) -> None:
        for _ in sleep_growing_intervals(_EVERY_S):
            self.report_if_changed()

    def report_if_changed(self) -> None:
        """Read the profile's file and report it if it has changed.

        A file that is too large or not a JSON object is ignored.
        """
        with self._lock:
            document = untrusted_files.read_json_object(
                f"{self._spec.run_dir}/profile.json", MOST_BYTES
            )
            if document is None:
                return
            facts, profile = document
            stamp = (facts.st_ino, facts.st_mtime_ns)
            if stamp != self._seen:
                self._seen = stamp
                self._reporter.queue_profile(profile)
