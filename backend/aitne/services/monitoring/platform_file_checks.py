"""Health checks of files: secrets, backup, job templates and the report of the doctor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.models.check_result import CheckState
from aitne.core.models.health import HealthState
from aitne.core.settings import Settings
from aitne.core.units import describe_duration
from aitne.services.jobs.template_catalog import TemplateCatalog
from aitne.services.monitoring.health_check_result import (
    DEGRADED,
    DOWN,
    OK,
    Facts,
    HealthCheckResult,
)
from aitne.services.platform.backup_record import backup_record_file, read_backup_record
from aitne.services.platform.doctor_report import read_report, report_file
from aitne.services.platform.secret_file_inventory import SecretFiles

OLD_BACKUP = timedelta(hours=48)
"""Age of the last backup from which on one is missing; backups are made daily."""
OLD_REPORT = OLD_BACKUP
"""Age from which on the report of the doctor, which a timer runs daily, says nothing any more."""
_MOST_FAILURES = 5
"""Maximum number of failures of the doctor in the text of a result."""


class FileChecks:
    """Checks of files in the data directory and of those with secrets."""

    def __init__(
        self,
        settings: Settings,
        templates: TemplateCatalog,
        clock: Callable[[], datetime],
        secrets: SecretFiles,
    ) -> None:
        self._settings = settings
        self._templates = templates
        self._clock = clock
        self._secrets = secrets

    async def secret_files(self) -> HealthCheckResult:
        """Check that only the accounts that need them can read secrets of the platform and of Slurm."""
        seen = await self._secrets.inspect()
        facts: Facts = {"files": len(seen.exposed), "unseen": len(seen.unseen)}
        if seen.exposed:
            commands = ", ".join(f"`{each.command}`" for each in seen.exposed)
            return HealthCheckResult(
                DOWN,
                " ".join(each.problem for each in seen.exposed),
                f"Run {commands}; `aitne admin doctor --fix` does so for files of the platform's account. If "
                "other users work on this machine, also replace the secrets (docs/handbook/secure.md).",
                None,
                facts,
            )
        if seen.unseen:
            return HealthCheckResult(
                HealthState.UNKNOWN,
                f"Not all secrets could be looked at: {' '.join(seen.unseen)}",
                "Check there that only the account of the service can read it (docs/handbook/secure.md).",
                None,
                facts,
            )
        notes = ("Only the accounts that need them can read secrets.", *seen.elsewhere)
        return HealthCheckResult(OK, " ".join(notes), None, None, facts)

    async def backup(self) -> HealthCheckResult:
        """Check the age of the last backup, which `aitne admin backup` records."""
        advice = "Run `aitne admin backup`, and see why its timer did not."
        last = await asyncio.to_thread(read_backup_record, self._settings.data_dir)
        if last is None:
            says = (
                f"{backup_record_file(self._settings.data_dir)} is damaged, so no backup is known."
            )
            return HealthCheckResult(DEGRADED, says, advice)
        age = self._clock() - last.created_at
        facts: Facts = {"created_at": last.created_at.isoformat(), "bytes": last.bytes}
        says = f"The last backup is from {last.created_at:%Y-%m-%d %H:%M} UTC, in {last.path}."
        if age > OLD_BACKUP:
            says = f"The last backup is {describe_duration(int(age.total_seconds()))} old: {last.path}."
            return HealthCheckResult(DEGRADED, says, advice, None, facts)
        return HealthCheckResult(OK, says, None, None, facts)

    async def doctor(self) -> HealthCheckResult:
        """Report what `aitne admin doctor` found last, which also looks at the host and the nodes."""
        report = await asyncio.to_thread(read_report, self._settings.data_dir)
        if report is None:
            says = f"{report_file(self._settings.data_dir)} is damaged."
            return HealthCheckResult(HealthState.UNKNOWN, says, "Run `aitne admin doctor` again.")
        failed = [check for check in report.checks if check.state is CheckState.FAILED]
        warnings = sum(check.state is CheckState.WARNING for check in report.checks)
        facts: Facts = {
            "as_of": report.as_of.isoformat(),
            "checks": len(report.checks),
            "failed": len(failed),
            "warnings": warnings,
        }
        at = f"{report.as_of:%Y-%m-%d %H:%M} UTC"
        if failed:
            found = " ".join(f"{check.name}: {check.message}" for check in failed[:_MOST_FAILURES])
            return HealthCheckResult(
                DEGRADED,
                f"`aitne admin doctor` found {len(failed)} failures on {at}. {found}",
                "Run `aitne admin doctor` on the platform's host: it names the remedies, and the state "
                "here follows.",
                None,
                facts,
            )
        age = self._clock() - report.as_of
        if age > OLD_REPORT:
            old = describe_duration(int(age.total_seconds()))
            says = f"The last report of `aitne admin doctor` is {old} old."
            advice = "Run it on the platform's host, and see why its timer did not."
            return HealthCheckResult(DEGRADED, says, advice, None, facts)
        says = f"`aitne admin doctor` found no failure on {at}, and {warnings} warnings."
        return HealthCheckResult(OK, says, None, None, facts)

    async def template_files(self) -> HealthCheckResult:
        """Report template files that are invalid."""
        problems = self._templates.problems()
        facts: Facts = {"templates": len(self._templates.templates()), "problems": len(problems)}
        if problems:
            first = problems[0]
            location = first.path if first.line is None else f"{first.path}:{first.line}"
            return HealthCheckResult(
                DEGRADED,
                f"{len(problems)} template files are invalid, the first at {location}: {first.reason}",
                "The other templates stay in use. Correct the file; it is read again automatically.",
                None,
                facts,
            )
        return HealthCheckResult(
            OK, f"{facts['templates']} templates can be launched.", None, None, facts
        )
