"""Audit log: the API records every change that a user requests, administrators read it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from aitne.core.audit_chain import AuditChain
from aitne.core.errors import StoreUnavailable
from aitne.core.models.audit import AuditCheck, AuditDraft, AuditEntry, AuditFilter, Outcome
from aitne.core.models.user import Actor
from aitne.core.spreadsheet_cells import escape_cell
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store import Store
from aitne.store.paging import Page

log = logging.getLogger(__name__)

MOST_TEXT = 500
"""Maximum length of a text in an entry; longer texts are cut, because an entry describes what was
done, not all data that was sent.
"""
_BATCH = 500
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLUMNS = tuple(name for name in AuditEntry.model_fields if name != "id")


class AuditService:
    """Service that appends entries to the audit log and lets administrators read it. Each entry
    contains the hash of the entry before it.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def record(
        self,
        *,
        actor: str,
        action: str,
        object: str | None,  # noqa: A002 - the word of the audit log
        outcome: str,
        address: str | None,
        impersonator: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one entry to the audit log; ``outcome`` is ``allowed``, ``denied`` or ``failed``.

        If the database does not answer, the entry is written to the program's own log instead: the
        recorded action has already happened and must not fail.
        """
        draft = AuditDraft(
            time=self._clock(),
            actor=_shorten_text(actor),
            impersonator=None if impersonator is None else _shorten_text(impersonator),
            action=_shorten_text(action)[:100],
            object=None if object is None else _shorten_text(object),
            outcome=Outcome(outcome),
            address=None if address is None else _shorten_text(address),
            details=_to_json_value(details or {}),
        )
        try:
            await self._store.append_audit_entry(draft)
        except StoreUnavailable as error:
            log.error("Not in the audit log (%s): %s", error.message, draft.model_dump_json())

    async def list(
        self, actor: Actor, criteria: AuditFilter, *, cursor: str | None, limit: int
    ) -> Page[AuditEntry]:
        """Return one page of the audit entries that match ``criteria``, newest first. ``cursor`` is
        the ``next_cursor`` of the previous page; None: the first page.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        _require_administrator(actor)
        return await self._store.list_audit_entries(criteria, cursor=cursor, limit=limit)

    async def job_names(self, actor: Actor, entries: Sequence[AuditEntry]) -> dict[str, str]:
        """Return the names of the jobs that are objects of the entries, by ID.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        _require_administrator(actor)
        parts = {part for entry in entries for part in (entry.object or "").split("/")}
        jobs = await self._store.find_jobs([UUID(part) for part in parts if _UUID.fullmatch(part)])
        return {str(job.id): job.name for job in jobs}

    async def export(
        self, actor: Actor, criteria: AuditFilter, *, as_csv: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield all entries that match ``criteria``, oldest first, as JSON lines or CSV, in pieces.

        Raises:
            NotAllowed: the actor is not an administrator.
        """
        _require_administrator(actor)
        return self._export_csv(criteria) if as_csv else self._export_json_lines(criteria)

    async def check(self, actor: Actor) -> AuditCheck:
        """Check the chain of hashes over all entries of the audit log, and return the result.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        _require_administrator(actor)
        return await self.check_chain()

    async def check_chain(self, *, pause_s: float = 0.0) -> AuditCheck:
        """Check the chain of hashes for the platform itself, with a pause after each batch of
        entries. Raises ``StoreUnavailable``.
        """
        chain, reached = AuditChain(), 0
        while batch := await self._store.list_audit_entries_after(
            reached, AuditFilter(), limit=_BATCH
        ):
            entries = [entry.model_dump(mode="json") for entry in batch]
            # Hashing a batch takes milliseconds, which would delay other requests.
            if not await asyncio.to_thread(chain.check_entries, entries):
                break
            reached = batch[-1].id
            await asyncio.sleep(pause_s)
        broken = chain.broken
        return AuditCheck(
            intact=broken is None,
            entries=chain.entries,
            last_hash=chain.last_hash,
            broken_entry=None if broken is None else broken.entry,
            problem=None if broken is None else broken.problem,
        )

    async def _export_json_lines(self, criteria: AuditFilter) -> AsyncGenerator[bytes, None]:
        async for batch in self._read_batches(criteria):
            yield "".join(f"{entry.to_line()}\n" for entry in batch).encode()

    async def _export_csv(self, criteria: AuditFilter) -> AsyncGenerator[bytes, None]:
        yield _encode_csv([["id", *_COLUMNS]])
        async for batch in self._read_batches(criteria):
            yield _encode_csv([_make_csv_row(entry) for entry in batch])

    async def _read_batches(
        self, criteria: AuditFilter
    ) -> AsyncGenerator[Sequence[AuditEntry], None]:
        reached = 0
        while batch := await self._store.list_audit_entries_after(reached, criteria, limit=_BATCH):
            yield batch
            reached = batch[-1].id


def _require_administrator(actor: Actor) -> None:
    require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "log", "audit")


def _make_csv_row(entry: AuditEntry) -> list[str]:
    fields = entry.model_dump(mode="json")
    fields["details"] = json.dumps(entry.details, sort_keys=True)
    return [str(entry.id), *(escape_cell(fields[name]) for name in _COLUMNS)]


def _encode_csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _shorten_text(text: str) -> str:
    """Return the text shortened to ``MOST_TEXT``, without characters that some databases cannot
    store.
    """
    plain = text.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode()
    return plain if len(plain) <= MOST_TEXT else f"{plain[: MOST_TEXT - 1]}…"


def _to_json_value(value: Any) -> Any:
    """Return the value converted to types that JSON can represent, with texts shortened by
    ``_shorten_text``.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {_shorten_text(str(name)): _to_json_value(child) for name, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json_value(child) for child in value]
    return _shorten_text(str(value))
