"""Errors of the launcher. Each message is one sentence that says how to resolve the problem."""

from __future__ import annotations


class LaunchError(RuntimeError):
    """Error: the ranks cannot be started, or cannot connect to each other. The message is for the
    user.
    """
