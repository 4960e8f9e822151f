"""Transfer of the supervisor's records of hung processes to the audit log and the events."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from aitne.core.models.audit import AuditDraft, Outcome
from aitne.core.ports.store import Store
from aitne.host import hung_processes

EVENT = "process.restarted"


class ProcessRestarts:
    """Storage of each record at least once."""

    def __init__(self, store: Store, run_dir: Path) -> None:
        self._store = store
        self._run_dir = run_dir

    async def store(self) -> None:
        """Store the records that the supervisor left.

        Raises:
            StoreUnavailable: the database does not answer; the records stay for the next time.
        """
        for path, restart in hung_processes.left(self._run_dir):
            await self._store.append_audit(
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
