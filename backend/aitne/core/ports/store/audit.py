"""The store's part about the audit log. Nothing here changes or deletes an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.audit import AuditDraft, AuditEntry, AuditFilter
from aitne.core.ports.store.records import Page


class AuditStore(Protocol):
    """The audit log: one chain, which the database itself keeps from being changed."""

    async def append_audit(self, draft: AuditDraft) -> AuditEntry:
        """Append it to the end of the chain. One at a time, whichever process calls."""
        ...

    async def list_audit(
        self, where: AuditFilter, *, cursor: str | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        """List entries, newest first. Raises ``InvalidInput`` (cursor)."""
        ...

    async def audit_after(
        self, entry_id: int, where: AuditFilter, *, limit: int = 1_000
    ) -> Sequence[AuditEntry]:
        """List entries with a higher number, oldest first."""
        ...
