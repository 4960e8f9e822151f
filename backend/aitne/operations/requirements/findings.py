"""Findings that the checks return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aitne.core.models.check_result import CheckState


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check. ``repair`` repairs it, without risk, and returns a sentence that says
    what was changed; None: an administrator must act.
    """

    state: CheckState
    message: str
    remedy: str | None = None
    repair: Callable[[], str] | None = None


def make_ok_finding(message: str) -> Finding:
    """Return the finding that all is well; ``message`` says what was seen."""
    return Finding(CheckState.OK, message)


def make_warning_finding(
    message: str, remedy: str, repair: Callable[[], str] | None = None
) -> Finding:
    """Return a finding that needs attention."""
    return Finding(CheckState.WARNING, message, remedy, repair)


def make_failed_finding(
    message: str, remedy: str, repair: Callable[[], str] | None = None
) -> Finding:
    """Return a finding about something that does not work."""
    return Finding(CheckState.FAILED, message, remedy, repair)


def make_unknown_finding(message: str, remedy: str | None = None) -> Finding:
    """Return the finding that the state could not be determined; ``message`` says why."""
    return Finding(CheckState.UNKNOWN, message, remedy)


def make_skipped_finding(message: str) -> Finding:
    """Return the finding of a check that does not apply; ``message`` says why."""
    return Finding(CheckState.SKIPPED, message)
