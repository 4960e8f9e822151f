"""Errors of the supervisor."""

from __future__ import annotations


class PlatformStartError(Exception):
    """Error: the platform cannot start; the message is for the user who started it."""
