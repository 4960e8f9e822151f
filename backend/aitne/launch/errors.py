"""What keeps ranks from being started, in one sentence that says what to do."""

from __future__ import annotations


class LaunchError(RuntimeError):
    """The ranks cannot be started, or do not find each other."""
