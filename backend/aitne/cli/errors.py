"""Errors of the command line itself, in addition to those of the platform."""

from __future__ import annotations

from aitne.core.errors import AitneError


class Declined(AitneError):
    """Error: the user answered a confirmation with no."""

    code = "declined"


class JobFailed(AitneError):
    """Error: the job for which the command waited has failed. The message is the reason; the job
    was already printed."""

    code = "job_failed"
