"""Registration of the checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import Finding


class Subject(StrEnum):
    """Subject of a group of checks, with the title of the group in the output."""

    FILES = "Settings and files"
    MACHINE = "This machine"
    PROCESSES = "Processes"
    DATABASE = "Database"
    NETWORK = "Network and certificates"
    SERVICES = "Logins and messages"
    SCHEDULER = "Scheduler"
    ACCOUNTS = "Accounts and broker"
    NODES = "Nodes"


CheckFunction = Callable[[CheckedHost], Finding | Awaitable[Finding]]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A registered check. A function that is not a coroutine runs in a thread of its own."""

    name: str
    subject: Subject
    summary: str
    """What is checked, as a sentence for the documentation."""
    function: CheckFunction
    needs_platform: bool
    """True if the check is skipped while the platform is not running."""


CHECKS: dict[str, DoctorCheck] = {}
"""All checks by name, in the order of the output within each subject."""


def check(
    name: str, subject: Subject, summary: str, *, needs_platform: bool = False
) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check ``name``, which the output, the documentation and the tests
    then contain.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if name in CHECKS:
            raise ValueError(f"The check {name} is defined twice.")
        CHECKS[name] = DoctorCheck(name, subject, summary, function, needs_platform)
        return function

    return register
