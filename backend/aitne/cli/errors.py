"""Errors of the command line itself, beside those of the platform."""

from __future__ import annotations

from aitne.core.errors import AitneError


class Declined(AitneError):
    """The user answered a question with no."""

    code = "declined"


class JobFailed(AitneError):
    """The job that the command waited for failed. Its record was the answer; this is the reason."""

    code = "job_failed"
