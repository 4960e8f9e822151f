"""Meaning of Slurm's errors (the numbers are those of slurm/slurm_errno.h, stable over
releases).
"""

from __future__ import annotations

from enum import Enum

from aitne.adapters.schedulers._slurm.rest.client import Answer


class Meaning(Enum):
    """Result of a submission that failed."""

    REJECTED = "rejected"
    """slurmctld understood the request and rejected it."""
    NOT_NOW = "not now"
    """It is not in Slurm; later it may be accepted."""
    TOKEN = "token"  # noqa: S105 - a word
    """It is not in Slurm: the token was rejected."""
    UNREADABLE = "unreadable"
    """slurmrestd itself did not understand it; it was not passed on."""
    UNKNOWN = "unknown"
    """It may be in Slurm."""


UNKNOWN_JOB = frozenset({2017})
ENDED_JOB = frozenset({2020, 2021})
_UNSPECIFIED = -1
_AUTHENTICATION = frozenset({1007, *range(6000, 6010)})
_NOT_NOW = frozenset(
    {
        11,  # EAGAIN: slurmctld is too busy
        1001,  # no connection to slurmctld
        1800,
        2007,  # no room for another job (MaxJobCount); sbatch itself tries again
        2027,  # a backup controller that is not in charge
        2090,  # an error inside slurmctld, of this attempt
        2105,  # submissions are switched off
        2131,
        7000,  # no slurmdbd, and none of its data kept
    }
)


def meaning(answer: Answer) -> Meaning:
    """Return what a submission's answer that is not ``ok`` means for the job."""
    if answer.status == 401:
        return Meaning.TOKEN
    numbers = {problem.number for problem in answer.problems}
    if numbers & _AUTHENTICATION:
        return Meaning.TOKEN
    if numbers & _NOT_NOW:
        return Meaning.NOT_NOW
    if any(number is not None and 9000 <= number < 10_000 for number in numbers):
        return Meaning.UNREADABLE
    if any(
        number is not None and (2000 <= number < 5000 or 7000 < number < 9000) for number in numbers
    ):
        return Meaning.REJECTED
    # No word of slurmctld's, and a status that is about the request alone.
    if answer.status in (400, 404, 405, 411, 413, 415, 422):
        return Meaning.UNREADABLE
    return Meaning.UNKNOWN


def refused_token(answer: Answer) -> bool:
    """Return True if a query (not a submission) failed because the token was rejected.

    22.05 has no number of its own for that: it says the same when slurmctld is away.
    """
    numbers = {problem.number for problem in answer.problems}
    return answer.status == 401 or bool(numbers & (_AUTHENTICATION | {_UNSPECIFIED}))
