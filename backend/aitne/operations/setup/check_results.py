"""Results of checks, and commands with which checks look at this machine."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from aitne.core.models.check_result import CheckResult, CheckState
from aitne.operations.requirements.findings import Finding
from aitne.supervisor.per_user_accounts import plain_environment
from aitne.supervisor.process_account import ProcessAccount, make_popen_arguments

COMMAND_WITHIN_S = 15.0


def make_result(
    name: str, state: CheckState, message: str, remedy: str | None = None
) -> CheckResult:
    """Return the result of a check."""
    return CheckResult(name=name, state=state, message=message, remedy=remedy)


def make_result_of_finding(name: str, finding: Finding, *, is_blocking: bool = True) -> CheckResult:
    """Return a finding as the result of the check ``name``. Without ``is_blocking`` a failure is a warning,
    because it can be corrected after the files were written.
    """
    failed = finding.state is CheckState.FAILED and not is_blocking
    state = CheckState.WARNING if failed else finding.state
    return make_result(name, state, finding.message, finding.remedy)


@dataclass(frozen=True, slots=True)
class Answer:
    """End of a command: its exit status and output; the status is None if it did not start or end in time."""

    status: int | None
    output: str
    error: str = ""

    @property
    def has_succeeded(self) -> bool:
        """True if the exit status is 0."""
        return self.status == 0


def run_command(
    argv: Sequence[str],
    *,
    account: pwd.struct_passwd | None = None,
    environment: dict[str, str] | None = None,
    stdin: str = "",
    within_s: float = COMMAND_WITHIN_S,
) -> Answer:
    """Run a command and return its end.

    Args:
        argv: the command with its arguments.
        account: account to run it as, which requires root; None: the own one.
        environment: further variables. Another account gets only those of this process that any
            account may know; the own one gets all.
        stdin: its standard input.
        within_s: seconds after which it is terminated.
    """
    changed = account is not None and account.pw_uid != os.geteuid()
    try:
        ended = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            cwd="/",
            env={
                **(plain_environment() if changed else os.environ),
                "LC_ALL": "C.UTF-8",
                **(environment or {}),
            },
            **make_popen_arguments(
                ProcessAccount.from_passwd(account) if account and changed else None
            ),
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"{argv[0]} did not answer within {within_s:.0f} s")
    except OSError as error:
        return Answer(None, "", f"{argv[0]}: {error.strerror}")
    return Answer(ended.returncode, ended.stdout, ended.stderr.strip())


def find_account(name: str) -> pwd.struct_passwd | None:
    """Return the Unix account of this machine; None if there is none."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
