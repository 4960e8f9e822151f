"""Transfer of the supervisor's records of restarted, hung processes to the audit log and the event
log.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from aitne.core.models.audit import AuditDraft, Outcome
from aitne.local_system import hung_restart_records
from aitne.store import Store

EVENT = "process.restarted"


class ProcessRestarts:
    """Component that copies the supervisor's records of hung processes to the audit log and the
    event log.

    Each record is a file below ``run_dir`` and is deleted after it was copied. A record may
    therefore be copied twice, but it is never lost.
    """

    def __init__(self, store: Store, run_dir: Path) -> None:
        self._store = store
        self._run_dir = run_dir

    async def store(self) -> None:
        """Copy the records that the supervisor has left, and delete their files.

        Raises:
            StoreUnavailable: the database does not answer; the remaining files are left for the
                next call.
        """
        for path, restart in hung_restart_records.list_restart_records(self._run_dir):
            await self._store.append_audit_entry(
                AuditDraft(
                    time=datetime.fromisoformat(restart.time),
                    actor="supervisor",
                    action="restart_process",
                    object=restart.process,
                    outcome=Outcome.ALLOWED,
                    address=None,
                    details={"reason": f"no answer for {restart.silent_s:.0f} s"},
                )
            )
            data = {"process": restart.process, "silent_s": round(restart.silent_s)}
            await self._store.add_event(EVENT, data)
            path.unlink()
