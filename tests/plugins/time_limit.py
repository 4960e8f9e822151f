"""Lets tests begin only until a time, so that a run on a slow machine ends before it is ended.

``AITNE_TEST_UNTIL`` is that time, in seconds since 1970. Tests that would begin later are skipped as lacking
``time``; ``scripts/test_times.py summary`` counts them, and ``.ci/last-full`` is not written.
"""

from __future__ import annotations

import os
import time

import pytest

UNTIL = "AITNE_TEST_UNTIL"
LACKS = "time"
"""What such a test lacks, in its record."""


class TimeLimit:
    """The pytest plugin that skips the tests that would begin after the limit, before their set-up.

    Args:
        until: the limit, in seconds since 1970.
    """

    def __init__(self, until: float) -> None:
        self._until = until

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip the test if the time is over."""
        if time.time() > self._until:
            pytest.skip(f"the run has no time left (lacks {LACKS})")


def register(config: pytest.Config) -> None:
    """Register the plugin if the environment has a limit."""
    if until := os.environ.get(UNTIL):
        config.pluginmanager.register(TimeLimit(float(until)))
