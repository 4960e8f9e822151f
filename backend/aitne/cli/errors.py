"""Errors of the command line itself, beside those of the platform."""

from __future__ import annotations

from aitne.core.errors import AitneError


class Declined(AitneError):
    """Error: the user answered a confirmation with no."""

    code = "declined"


class JobFailed(AitneError):
    """Error: the job for which the command waited has failed. The command has printed the job
    before; the message is the reason.
    """

    code = "job_failed"
