"""The store's part about the audit log. Nothing here changes or deletes an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter
from aitne.core.ports.store.records import Page


class AuditStore(Protocol):
    """Storage of the audit log: a chain of entries, which the database itself protects from
    changes.
    """

    async def append_audit(self, draft: AuditDraft) -> AuditEntry:
        """Append an entry to the end of the chain; concurrent calls, also of other processes, wait
        for each other.
        """
        ...

    async def list_audit(
        self, where: AuditFilter, *, cursor: str | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        """List entries, newest first. Raises ``InvalidInput`` (cursor)."""
        ...

    async def audit_after(
        self, entry_id: int, where: AuditFilter, *, limit: int = 1_000
    ) -> Sequence[AuditEntry]:
        """List the entries that match ``where`` and have a higher number than ``entry_id``, oldest
        first.
        """
        ...
