"""Meaning of slurmrestd's responses to requests that failed."""

from __future__ import annotations

from aitne.adapters.schedulers._slurm.rest.rest_http_client import RestResponse
from aitne.adapters.schedulers._slurm.submission_failure import (
    SubmissionFailure,
    classify_error_number,
)

UNKNOWN_JOB = frozenset({2017})
ENDED_JOB = frozenset({2020, 2021})
_UNSPECIFIED = -1
_PRECEDENCE = (
    SubmissionFailure.AUTHENTICATION,
    SubmissionFailure.NOT_NOW,
    SubmissionFailure.UNKNOWN,
    SubmissionFailure.UNREADABLE,
    SubmissionFailure.REFUSED,
)


def classify_failed_submission(response: RestResponse) -> SubmissionFailure:
    """Return what the response to a failed submission implies about the job."""
    if response.status == 401:
        return SubmissionFailure.AUTHENTICATION
    failures = {
        classify_error_number(problem.number)
        for problem in response.problems
        if problem.number is not None
    }
    for failure in _PRECEDENCE:
        if failure in failures:
            return failure
    # No message of slurmctld, and a status that concerns only the request.
    if response.status in (400, 404, 405, 411, 413, 415, 422):
        return SubmissionFailure.UNREADABLE
    return SubmissionFailure.UNKNOWN


def is_token_refused(response: RestResponse) -> bool:
    """Return True if a query (not a submission) failed because the token was rejected.

    22.05 uses the same error number if slurmctld is not reachable, so the result is True then too.
    """
    numbers = {problem.number for problem in response.problems}
    failures = {classify_error_number(number) for number in numbers if number is not None}
    return (
        response.status == 401
        or _UNSPECIFIED in numbers
        or SubmissionFailure.AUTHENTICATION in failures
    )
