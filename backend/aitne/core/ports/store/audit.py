"""Part of the store for the audit log. No method changes or deletes an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter
from aitne.core.ports.store.records import Page


class AuditStore(Protocol):
    """Storage of the audit log: a chain of entries. The database itself prevents their
    modification.
    """

    async def append_audit(self, draft: AuditDraft) -> AuditEntry:
        """Append an entry to the chain and return it; concurrent calls, also of other processes,
        are executed one after the other.
        """
        ...

    async def list_audit(
        self, where: AuditFilter, *, cursor: str | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        """Return a page of the entries that match ``where``, newest first.

        Raises ``InvalidInput`` for an invalid cursor.
        """
        ...

    async def audit_after(
        self, entry_id: int, where: AuditFilter, *, limit: int = 1_000
    ) -> Sequence[AuditEntry]:
        """List the entries that match ``where`` and have a higher number than ``entry_id``, oldest
        first.
        """
        ...
