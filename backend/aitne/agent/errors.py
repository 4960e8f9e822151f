"""Errors that several modules of the agent share."""

from __future__ import annotations


class AttachError(Exception):
    """Error: the process for a terminal or SSH connection was not started; the message states the
    reason."""
