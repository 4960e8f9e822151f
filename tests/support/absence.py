"""Measurement of the time for which a portal does not answer."""

from __future__ import annotations

import threading
import time

import httpx


class AbsenceMeter:
    """The longest time for which the portal did not answer, in seconds; ``browser`` asks it."""

    def __init__(self, url: str, browser: httpx.Client | None = None) -> None:
        self._url = url
        self._browser = browser or httpx.Client(trust_env=False)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.longest_s = 0.0

    def __enter__(self) -> AbsenceMeter:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._browser.close()

    def _watch(self) -> None:
        answered = time.monotonic()
        while not self._ended.wait(0.05):
            try:
                self._browser.get(f"{self._url}/healthz", timeout=1).raise_for_status()
            except httpx.HTTPError:
                continue
            now = time.monotonic()
            self.longest_s, answered = max(self.longest_s, now - answered), now
