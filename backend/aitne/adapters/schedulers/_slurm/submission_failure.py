"""Slurm's errors, and what each says about a failed submission.

The numbers are those of slurm/slurm_errno.h, which are stable across releases; slurmrestd reports
them. sbatch prints the text of ``slurm_strerror`` (src/common/slurm_errno.c) instead. Both are
looked up in one table, so that a job is judged alike, whichever way it was submitted.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from enum import Enum


class SubmissionFailure(Enum):
    """Conclusion from a failed submission: whether Slurm may have the job."""

    REFUSED = "refused"
    """slurmctld, one of its plugins or sbatch itself read the request and refused it."""
    NOT_NOW = "not now"
    """The job is not in Slurm; a later submission may be accepted."""
    AUTHENTICATION = "authentication"
    """A credential was refused. If it was the token of a request to slurmrestd, the job is not in
    Slurm; sbatch checks the credential of the answer, too, so that the job may be there.
    """
    UNREADABLE = "unreadable"
    """The job is not in Slurm: slurmrestd could not parse the request."""
    UNKNOWN = "unknown"
    """The job may be in Slurm."""


_NOT_NOW: Mapping[int, str] = {
    errno.ENOENT: r"[Nn]o such file or directory",
    errno.EAGAIN: r"Resource temporarily unavailable|temporarily unable to accept job",
    errno.ENOMEM: r"Cannot allocate memory",
    errno.ENOSPC: r"No space left on device",
    errno.ENETUNREACH: r"Network is unreachable",
    errno.ECONNREFUSED: r"Connection refused",
    errno.EHOSTUNREACH: r"No route to host",
    1001: r"Communication connection failure",
    1005: r"Incompatible versions",
    1011: r"Plugin initialization failed",
    1012: r"Can't find an address",
    1800: r"controller \(connect failure\)",
    1804: r"Rate limit exceeded",
    1805: r"Rate limit exceeded",
    # MaxJobCount is reached; sbatch itself retries.
    2007: r"Unable to create job record|MaxJobCount limit|job queue full",
    # StateSaveLocation is full or cannot be written.
    2019: r"I/O error writing script",
    2027: r"standby mode",
    2090: r"Slurm internal error",
    2105: r"[Ss]ubmissions disabled",
    2131: r"standby mode",
    # Without slurmdbd, and with none of its data cached.
    7000: r"Unable to connect to database",
}
_AUTHENTICATION: Mapping[int, str] = {
    1007: r"[Aa]uthentication",
    6000: r"[Aa]uthentication",
    6001: r"[Aa]uthentication",
    6002: r"[Aa]uthentication",
    6004: r"Bad argument to plugin",
    6006: r"[Aa]uthentication",
    6007: r"unpack credential",
    6008: r"[Aa]uthentication",
    6009: r"Token Generation failed",
}
# The connection failed after the request was sent: slurmctld may have read all of it.
_UNKNOWN: Mapping[int, str] = {
    errno.EPIPE: r"Broken pipe",
    errno.ECONNABORTED: r"connection abort",
    errno.ECONNRESET: r"reset by peer",
    errno.ETIMEDOUT: r"timed out",
    1000: r"Unexpected message",
    1002: r"Message send failure",
    1003: r"Message receive failure",
    1004: r"shutdown failure",
    1006: r"I/O stream version",
    1008: r"message length",
    1013: r"Unexpected missing socket",
    1014: r"Unable to process incoming",
    1015: r"Unable to process outgoing",
    1016: r"Unable to process incoming",
    1017: r"would block",
    1018: r"would block",
    1019: r"Connection rejected",
    1020: r"Connection forced closed",
    1021: r"timed out",
    1022: r"timed out",
    1023: r"timed out",
    1024: r"delayed socket error",
    1025: r"shutting down",
    1801: r"controller \(send failure\)",
    1802: r"controller \(receive failure\)",
    1803: r"shutdown failure",
    5000: r"[Zz]ero length",
    5001: r"message length",
    5002: r"Failed to send entire",
    5003: r"Header lengths",
    5004: r"timed out",
    5005: r"[Zz]ero [Bb]ytes",
}
_FAILURES = {
    **dict.fromkeys(_NOT_NOW, SubmissionFailure.NOT_NOW),
    **dict.fromkeys(_AUTHENTICATION, SubmissionFailure.AUTHENTICATION),
    **dict.fromkeys(_UNKNOWN, SubmissionFailure.UNKNOWN),
}

# Messages of the commands themselves, which have no number.
_NOT_SENT = (
    r"Could not establish a configuration source",
    r"[Uu]nable to resolve (?!group ID|user ID)",
    r"Could not read|Could not stat",
    r"Munge encode failed|If munged is up|Unable to generate",
    r"cannot find .* plugin",
)
_TEXTS: tuple[tuple[re.Pattern[str], SubmissionFailure], ...] = (
    # What may have had an effect takes precedence: to search for a job in vain does no harm.
    (re.compile("|".join(_UNKNOWN.values())), SubmissionFailure.UNKNOWN),
    (re.compile("|".join(_AUTHENTICATION.values())), SubmissionFailure.AUTHENTICATION),
    (re.compile("|".join((*_NOT_NOW.values(), *_NOT_SENT))), SubmissionFailure.NOT_NOW),
)
_SLURMRESTD = range(9000, 10_000)
_COMMUNICATION = (range(1011, 1900), range(5000, 6000))


def classify_error_number(number: int) -> SubmissionFailure:
    """Return what Slurm's error number says about a failed submission."""
    if number in _SLURMRESTD:
        return SubmissionFailure.UNREADABLE
    # A later release may have added an error of communication.
    in_transit = any(number in numbers for numbers in _COMMUNICATION)
    default = SubmissionFailure.UNKNOWN if in_transit else SubmissionFailure.REFUSED
    return _FAILURES.get(number, default)


def classify_error_text(text: str) -> SubmissionFailure:
    """Return what the text of one of Slurm's errors, or a message of its commands, says about a
    failed submission.
    """
    for pattern, failure in _TEXTS:
        if pattern.search(text):
            return failure
    return SubmissionFailure.REFUSED


def is_refused_by_slurmctld(number: int) -> bool:
    """Return True if only slurmctld itself gives an error this number, and only for a job that it
    does not have.

    A plugin of a site (JobSubmitPlugins) may give any number, most often -1.
    """
    ours = 2000 <= number < 5000 or 7000 <= number < 9000
    return ours and classify_error_number(number) is SubmissionFailure.REFUSED
