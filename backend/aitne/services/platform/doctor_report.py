"""Last results of ``aitne admin doctor``, stored for the portal's health page.

The command looks at the host and the nodes, which the API process does not.
"""

from __future__ import annotations

from pathlib import Path

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.check_result import CheckResult
from aitne.local_system.state_file_reader import DamagedState, read_state
from aitne.services.platform.shared_secrets import write_private


class DoctorReport(Frozen):
    """Results of all checks at one time."""

    as_of: UtcTime
    checks: tuple[CheckResult, ...]


def report_file(data_dir: Path) -> Path:
    """Return the path of the stored results."""
    return data_dir / "doctor.json"


def read_report(data_dir: Path) -> DoctorReport | None:
    """Return the stored results; None if there are none or the file is damaged."""
    try:
        return read_state(DoctorReport, report_file(data_dir))
    except (OSError, DamagedState):
        return None


def write_report(data_dir: Path, report: DoctorReport) -> None:
    """Store the results, readable for the platform's account only. Raises ``OSError``."""
    write_private(report_file(data_dir), report.model_dump_json())
