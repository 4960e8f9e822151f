"""Execution of all checks at once, each with a time limit."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aitne.core.errors import AitneError, SetupError
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.operations.data_dir_owner import become_owner
from aitne.operations.doctor import checks, node_test_jobs
from aitne.operations.doctor.check_registry import DoctorCheck
from aitne.operations.doctor.checked_host import CheckedHost, open_host
from aitne.operations.doctor.root_files import read_root_files
from aitne.operations.requirements.findings import (
    Finding,
    make_skipped_finding,
    make_unknown_finding,
)
from aitne.services.platform.doctor_report import DoctorReport, write_report

WITHIN_S = 8.0
"""Seconds after which a check is given up."""
JOBS_WITHIN_S = node_test_jobs.WITHIN_S + 30.0
"""Seconds after which a check of the nodes is given up; its jobs are cancelled before."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Results of all checks in the order of the output, with their findings."""

    results: tuple[tuple[DoctorCheck, Finding], ...]
    seconds: float
    hangs: bool
    """True if a check has not ended, so that its thread still waits."""

    @property
    def has_failed(self) -> bool:
        """True if a check has failed."""
        return any(finding.state is CheckState.FAILED for _, finding in self.results)

    def report(self) -> list[CheckResult]:
        """Return the results in the form that commands print."""
        return [
            CheckResult(
                name=check.name,
                state=finding.state,
                message=finding.message,
                remedy=finding.remedy,
            )
            for check, finding in self.results
        ]

    def repair(self) -> list[str]:
        """Repair what can be repaired without risk; return a sentence for each change or failure."""
        said = []
        for check, finding in self.results:
            if finding.repair is None:
                continue
            try:
                said.append(f"{check.name}: {finding.repair()}")
            except OSError as error:
                place = error.filename or check.name
                said.append(f"{check.name}: not repaired: {place}: {error.strerror}.")
        return said


def diagnose(
    data_dir: Path, job_user: str | None, *, fix: bool, say: Callable[[str], None]
) -> Examination:
    """Run all checks of the platform in ``data_dir`` as the account that owns it, and store the results
    for the portal.

    Args:
        data_dir: the data directory.
        job_user: user whose short jobs check the nodes; None: no job is started.
        fix: whether to repair what can be repaired without risk, and to check again then.
        say: receives sentences about what was done.

    Raises:
        SetupError: the settings cannot be loaded.
        NotAllowed: another account started the platform.
    """
    root_files = read_root_files(data_dir)
    account = become_owner(data_dir)
    if account is not None:
        say(f"Checking as {account}, the account of the platform.")
    # Not asyncio.run: it would wait for threads that a file system never answers.
    loop = asyncio.new_event_loop()
    host = open_host(data_dir, job_user, root_files)
    examination = loop.run_until_complete(run_checks(host))
    repairs = examination.repair() if fix else []
    for line in repairs:
        say(line)
    if repairs:
        host = open_host(data_dir, job_user, root_files)
        examination = loop.run_until_complete(run_checks(host))
    try:
        store_report(host, examination)
    except OSError as error:
        say(f"The results are not stored for the portal: {error.filename}: {error.strerror}.")
    if not examination.hangs:
        loop.close()
    return examination


async def run_checks(host: CheckedHost, chosen: Iterable[DoctorCheck] | None = None) -> Examination:
    """Run the checks (None: all) and return their results; the last ones are also stored in the
    data directory, where the portal's health page reads them.
    """
    began = time.monotonic()
    selected = list(checks.all_checks() if chosen is None else chosen)
    findings = await asyncio.gather(*(_run_within_time_limit(check, host) for check in selected))
    # A thread that waits for a file system cannot be ended.
    hangs = any(hung for _, hung in findings)
    if not hangs:
        await host.close()
    results = tuple(zip(selected, (finding for finding, _ in findings), strict=True))
    return Examination(results, time.monotonic() - began, hangs)


def store_report(host: CheckedHost, examination: Examination) -> None:
    """Store the results in the data directory, where the portal's health page reads them.

    Raises ``OSError`` if the file cannot be written.
    """
    report = DoctorReport(as_of=datetime.now(UTC), checks=tuple(examination.report()))
    write_report(host.settings.data_dir, report)


def make_json_document(results: Iterable[CheckResult]) -> dict[str, object]:
    """Return the document that ``--json`` prints."""
    return {"checks": [json.loads(result.model_dump_json()) for result in results]}


async def _run_within_time_limit(check: DoctorCheck, host: CheckedHost) -> tuple[Finding, bool]:
    if check.needs_platform and not host.is_running:
        return make_skipped_finding("The platform is not running."), False
    within_s = JOBS_WITHIN_S if host.job_user and check.name in checks.JOB_CHECKS else WITHIN_S
    try:
        async with asyncio.timeout(within_s):
            return await _run_check(check, host), False
    except TimeoutError:
        message = f"The check has not ended after {within_s:.0f} s."
        remedy = (
            "A file system, a name server or another service does not answer: see the other checks."
        )
        return make_unknown_finding(message, remedy), True
    except (AitneError, SetupError) as error:
        return make_unknown_finding(f"It could not be checked: {error.message}"), False
    except Exception as error:  # noqa: BLE001 - the other checks are wanted all the more
        return make_unknown_finding(
            f"It could not be checked: {type(error).__name__}: {error}"
        ), False


async def _run_check(check: DoctorCheck, host: CheckedHost) -> Finding:
    if inspect.iscoroutinefunction(check.function):
        found: Finding = await check.function(host)
        return found
    return await _run_in_thread(lambda: check.function(host))


async def _run_in_thread(call: Callable[[], object]) -> Finding:
    """Call a function in a daemon thread, which does not keep the process from exiting if a file
    system never answers it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Finding] = loop.create_future()

    def settle(result: object, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        elif isinstance(result, Finding):
            done.set_result(result)

    def work() -> None:
        result, problem = None, None
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - raised by the waiting coroutine
            problem = error
        with suppress(RuntimeError):  # the check was given up, and the loop is closed
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=work, daemon=True).start()
    return await done
