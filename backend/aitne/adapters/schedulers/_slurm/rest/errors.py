"""Meaning of Slurm's errors (the numbers of slurm/slurm_errno.h, which are stable across
releases).
"""

from __future__ import annotations

from enum import Enum

from aitne.adapters.schedulers._slurm.rest.client import RestResponse


class SubmissionFailure(Enum):
    """Conclusion from a failed submission by REST: whether the job may be in Slurm."""

    REJECTED = "rejected"
    """slurmctld understood the request and rejected it."""
    NOT_NOW = "not now"
    """The job is not in Slurm; a later submission may be accepted."""
    TOKEN = "token"  # noqa: S105 - a word
    """The job is not in Slurm: the token was rejected."""
    UNREADABLE = "unreadable"
    """The job is not in Slurm: slurmrestd could not parse the request."""
    UNKNOWN = "unknown"
    """The job may be in Slurm."""


UNKNOWN_JOB = frozenset({2017})
ENDED_JOB = frozenset({2020, 2021})
_UNSPECIFIED = -1
_AUTHENTICATION = frozenset({1007, *range(6000, 6010)})
_NOT_NOW = frozenset(
    {
        11,  # EAGAIN: slurmctld is too busy
        1001,  # no connection to slurmctld
        1800,
        2007,  # the limit of jobs is reached (MaxJobCount); sbatch itself retries
        2027,  # a backup controller that is not active
        2090,  # a temporary error inside slurmctld
        2105,  # submissions are disabled
        2131,
        7000,  # no slurmdbd, and none of its data cached
    }
)


def meaning(answer: RestResponse) -> SubmissionFailure:
    """Return what the response to a failed submission implies about the job."""
    if answer.status == 401:
        return SubmissionFailure.TOKEN
    numbers = {problem.number for problem in answer.problems}
    if numbers & _AUTHENTICATION:
        return SubmissionFailure.TOKEN
    if numbers & _NOT_NOW:
        return SubmissionFailure.NOT_NOW
    if any(number is not None and 9000 <= number < 10_000 for number in numbers):
        return SubmissionFailure.UNREADABLE
    if any(
        number is not None and (2000 <= number < 5000 or 7000 < number < 9000) for number in numbers
    ):
        return SubmissionFailure.REJECTED
    # No message of slurmctld, and a status that concerns only the request.
    if answer.status in (400, 404, 405, 411, 413, 415, 422):
        return SubmissionFailure.UNREADABLE
    return SubmissionFailure.UNKNOWN


def refused_token(answer: RestResponse) -> bool:
    """Return True if a query (not a submission) failed because the token was rejected.

    22.05 uses the same error number if slurmctld is not reachable, so the result is True then too.
    """
    numbers = {problem.number for problem in answer.problems}
    return answer.status == 401 or bool(numbers & (_AUTHENTICATION | {_UNSPECIFIED}))
